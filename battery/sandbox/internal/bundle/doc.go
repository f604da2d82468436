// Package bundle holds what the drivers on an OCI runtime have in common on the
// host's side of a sandbox: its folder and who owns it, the overlay that keeps
// the image's folder as it is, the files generated for /etc, the pieces of the
// OCI configuration that are the same everywhere, control groups, the runtime's
// program and processes, and the removal of it all.
//
// # A sandbox's folder
//
//	<StateDir>/<id>/
//	    owner.json   the process that started it (see Owner)
//	    bundle/      the OCI bundle
//	    etc/         resolv.conf, hosts, hostname, mounted read-only
//	    layer/       a tmpfs: the upper folder of the overlay
//	    root/        the overlay of layer/ over the image, the bundle's root
//	    mounts/      whatever else the driver mounts on the host
//	    state/       the runtime's own state
//	    runtime.log  the runtime's own log of the start
package bundle
