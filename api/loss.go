package api

// Loss is a named way in which a sandbox is weaker than asked. The list is
// closed: a sandbox is weaker than its policy only by a loss that the user
// accepted by name.
type Loss string

// The losses.
const (
	LossSoftLimits Loss = "soft-limits"
	LossNoUserNS   Loss = "no-userns"
	LossSingleID   Loss = "single-id"
	LossEmulation  Loss = "emulation"
	LossHostEdits  Loss = "host-edits"
	LossHostTools  Loss = "host-tools"
	LossSubmodules Loss = "submodules"
	LossHistory    Loss = "history"
	LossNested     Loss = "nested"
	LossWeakTier   Loss = "weak-tier"
)

// Losses returns every loss with what accepting it gives up, in the order of
// the documentation.
func Losses() []struct {
	Loss  Loss
	Means string
} {
	return []struct {
		Loss  Loss
		Means string
	}{
		{LossSoftLimits, "limits that you wrote may be enforced by a watcher, or as an approximation, instead of the kernel"},
		{LossNoUserNS, "no namespaces: Landlock and seccomp alone hold; no sockets but AF_UNIX, workspace copy or none only"},
		{LossSingleID, "an image runs with one user id; the ownership of its files is flattened"},
		{LossEmulation, "a microVM runs without KVM; QEMU does not call emulation a security boundary"},
		{LossHostEdits, "in direct mode a save on the host can undo a mask that you asked for"},
		{LossHostTools, "host tools whose settings lead into the workspace may run what the sandbox wrote"},
		{LossSubmodules, "host git may run the configuration of a submodule that the sandbox changed"},
		{LossHistory, "a hidden path that git tracks stays readable in the history"},
		{LossNested, "programs may make user namespaces: more of the kernel is within reach"},
		{LossWeakTier, "the tier is weaker than the trust and tenants of the policy ask for"},
	}
}
