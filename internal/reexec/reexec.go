// Package reexec holds the hidden subcommands that our programs start
// themselves with, in other namespaces and as other users: the enforcing proxy,
// the world's witness, the unpacker of images. They are told apart before the
// command line is built, so that they start fast.
package reexec

// Command is the first argument of every hidden subcommand.
const Command = "internal"
