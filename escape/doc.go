// Package escape judges sandboxes from outside: it runs benign containment
// probes in a box, looks at the host afterwards, and says what got through.
//
// A probe is a row of probes.tsv: what is planted outside, what the program
// inside does, what is looked at outside. What the program inside says is
// evidence and never a verdict. Everything, the run without any sandbox too,
// happens in a disposable lab of namespaces, so that the host stays as it was.
//
// The products under test are driven by their command lines alone. The method
// is in docs/benchmark-method.md, what was measured in
// docs/benchmarks-escape.md.
package escape
