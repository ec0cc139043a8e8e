// Package policy says what a sandbox may do. A policy file becomes a File
// (Parse, strict), several files become one stack (Stack: base, presets, the
// file, flags), and a stack with the facts of a host becomes a Plan (Resolve),
// in which every promise carries the strength it has there.
//
// Text is read once, here: what Parse returns has valid enums, normalised host
// names and checked paths, and no string of it is parsed again below.
//
// The package is on the start-up path of every run: it compiles no regular
// expression, reads no tree, and parses YAML only for files that are not
// `base`.
package policy
