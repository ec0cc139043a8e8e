// This file makes functions without a body legal: see fork_unsafe.go.
