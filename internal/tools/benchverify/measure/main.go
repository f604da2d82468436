//go:build linux

// Measure runs a command several times and prints the median of its wall time and
// processor time, in milliseconds, and of its peak memory, in kilobytes:
//
//	measure N COMMAND [ARGUMENT…]
//
// It is a program of its own, and small, because Linux counts the memory of whoever
// starts a program as that program's until it has begun: a large one that measures
// would measure itself.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if err := measure(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func measure(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: measure N COMMAND [ARGUMENT…]")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number of runs", args[0])
	}
	var wall, cpu, memory []int64
	for range n {
		cmd := exec.Command(args[1], args[2:]...)
		start := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", args[1:], err, out)
		}
		wall = append(wall, time.Since(start).Microseconds())
		cpu = append(cpu, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Microseconds())
		memory = append(memory, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
	}
	for _, list := range [][]int64{wall, cpu, memory} {
		slices.Sort(list)
	}
	fmt.Printf("%.2f %.2f %d\n", float64(wall[n/2])/1e3, float64(cpu[n/2])/1e3, memory[n/2])
	return nil
}
