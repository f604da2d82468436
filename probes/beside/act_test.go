package beside

import (
	"os/signal"
	"syscall"
	"time"
)

// endless does not end when it is told to.
func endless() {
	signal.Ignore(syscall.SIGTERM)
	time.Sleep(time.Minute)
}
