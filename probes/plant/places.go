package plant

// Places that plantings and attempts agree on.
const (
	Workspace   = "/workspace"            // where the obedient agent works
	SharedMount = "/shared"               // what a leaking boundary shares with the neighbour
	HostMount   = "/mnt/host"             // what a leaking boundary shares with the host
	KernelRoot  = "/run/wallproof-kernel" // where the control plants look-alikes of the kernel's files
	CacheMount  = "/var/cache/wallproof-shared"

	NeighbourSocket = "wallproof-neighbour" // abstract socket
	NeighbourShm    = "/dev/shm/wallproof-neighbour"
	NeighbourTmp    = "/tmp/wallproof-neighbour"
	NeighbourVarTmp = "/var/tmp/wallproof-neighbour"
	NeighbourHome   = "/root/.wallproof-neighbour"
	NeighbourKey    = 0x77706e62 // System V key
	NeighbourQueue  = "wallproof-neighbour"

	NeighbourKeyName = "wallproof-neighbour" // in the user's keyring
	NeighbourProcess = "wallproof-neighbour" // what its process calls itself

	PriorSocket = "wallproof-prior" // abstract socket
	PriorSwap   = "/swap.img"       // what the kernel wrote of it to disk
	PriorDump   = "/var/dumps/wallproof-prior.1234"
	PriorKey    = 0x77707072 // System V key
)
