// Package testenv tells tests what this host can do, gives them the project's
// binaries and an unprivileged user, and compares the host before and after.
// It is imported by tests only.
//
// A test that needs something says so:
//
//	testenv.Need(t, "root", "cgroup-v1")
//
// and is skipped, with the reason, where that is missing. CAISSON_TEST_REQUIRE
// turns such a skip into a failure: it lists, separated by commas, what must be
// there, so that a CI machine that lost a feature is red and not silent.
package testenv
