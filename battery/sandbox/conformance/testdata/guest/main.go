// Command guest is the program that the conformance suite runs inside a
// sandbox. It is static and uses nothing of the image.
package main

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

const socket = "/dev/shm/guest.sock"

func main() {
	if len(os.Args) < 2 {
		fail(errors.New("no subcommand"))
	}
	args := os.Args[2:]
	commands := map[string]func([]string) error{
		"hold": hold, "ask": ask, "echo": echo, "exit": exit, "env": env, "id": id,
		"write": write, "read": read, "stat": stat, "sleep": sleep, "dial": dial, "serve": serve,
		"interfaces": interfaces, "tty": tty, "leave": leave, "fork": fork, "fill": fill, "pause": pause, "allocate": allocate, "processes": processes, "descriptors": descriptors,
	}
	f, ok := commands[os.Args[1]]
	if !ok {
		fail(fmt.Errorf("unknown subcommand %q", os.Args[1]))
	}
	if err := f(args); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(99)
}

// hold is the first process: it keeps a secret in memory, and tells it and how
// often it was asked to whoever connects.
func hold([]string) error {
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	if err := os.Chmod(socket, 0o777); err != nil {
		return err
	}
	for n := 1; ; n++ {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		fmt.Fprintf(c, "%s %d", hex.EncodeToString(secret), n)
		c.Close()
	}
}

// ask waits until hold listens, which it may not do yet right after a start.
func ask([]string) error {
	for range 500 {
		c, err := net.Dial("unix", socket)
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		_, err = io.Copy(os.Stdout, c)
		return err
	}
	return errors.New("the first process does not answer")
}

// echo copies stdin to stdout and its arguments to stderr.
func echo(args []string) error {
	fmt.Fprint(os.Stderr, strings.Join(args, " "))
	_, err := io.Copy(os.Stdout, os.Stdin)
	return err
}

func exit(args []string) error {
	if args[0] == "kill" {
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	os.Exit(n)
	return nil
}

func env([]string) error {
	fmt.Print(strings.Join(os.Environ(), "\x00"))
	return nil
}

func id([]string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	fmt.Printf("uid=%d gid=%d cwd=%s host=%s\n", os.Getuid(), os.Getgid(), dir, host)
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return err
	}
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, value, ok := strings.Cut(s.Text(), ":"); ok && (strings.HasPrefix(name, "Cap") || name == "NoNewPrivs") {
			fmt.Printf("%s=%s\n", name, strings.TrimSpace(value))
		}
	}
	return nil
}

func write(args []string) error {
	return os.WriteFile(args[0], []byte(args[1]), 0o644)
}

func read(args []string) error {
	b, err := os.ReadFile(args[0])
	fmt.Print(string(b))
	return err
}

func stat(args []string) error {
	fi, err := os.Lstat(args[0])
	if err != nil {
		return err
	}
	st := fi.Sys().(*syscall.Stat_t)
	fmt.Printf("%v %d %d", fi.Mode(), st.Uid, st.Gid)
	return nil
}

// sleep says when it is ready and waits for ever, with a child that does too.
func sleep([]string) error {
	c := exec.Command("/proc/self/exe", "pause")
	if err := c.Start(); err != nil {
		return err
	}
	fmt.Println("ready")
	return c.Wait()
}

func pause([]string) error {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	<-c
	return nil
}

func dial(args []string) error {
	c, err := net.DialTimeout("tcp", args[0], 5*time.Second)
	if err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, c)
	return err
}

// serve answers every connection at an address with a text.
func serve(args []string) error {
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		io.WriteString(c, args[1])
		c.Close()
	}
}

func interfaces([]string) error {
	ifs, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range ifs {
		fmt.Println(i.Name)
	}
	return nil
}

// tty says whether its output is a terminal of the asked size, once it is, and
// repeats a line of its input.
func tty(args []string) error {
	var size struct{ Rows, Cols, X, Y uint16 }
	for range 500 {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, 1, syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size))); errno != 0 {
			return errno
		}
		if got := fmt.Sprintf("%dx%d", size.Rows, size.Cols); got == args[0] {
			line, err := bufio.NewReader(os.Stdin).ReadString('\n')
			fmt.Printf("terminal %s, read %q\n", got, line)
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("size is %dx%d", size.Rows, size.Cols)
}

// leave ends at once and leaves a child behind; it keeps the streams or lets
// go of them.
func leave(args []string) error {
	c := exec.Command("/proc/self/exe", "pause")
	if args[0] == "keep" {
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	fmt.Print("left")
	return nil
}

// fork starts processes until it may not.
func fork(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for i := range n {
		if err := exec.Command("/proc/self/exe", "pause").Start(); err != nil {
			fmt.Printf("stopped at %d", i)
			return nil
		}
	}
	fmt.Print("never stopped")
	return nil
}

// fill writes mebibytes to a file until it may not.
func fill(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for i := range n {
		if _, err := f.Write(block); err != nil {
			fmt.Printf("stopped at %d", i)
			return os.Remove(args[0])
		}
	}
	fmt.Print("never stopped")
	return os.Remove(args[0])
}

// allocate touches mebibytes of memory.
func allocate(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	b := make([]byte, n<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	fmt.Print("allocated")
	return nil
}

// processes lists the arguments of all processes but this one.
func processes([]string) error {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, f := range files {
		if f == fmt.Sprintf("/proc/%d/cmdline", os.Getpid()) {
			continue
		}
		if b, err := os.ReadFile(f); err == nil {
			fmt.Println(strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " ")))
		}
	}
	return nil
}

// descriptors lists the open files that this process was started with. They
// are asked for one by one, since listing them opens another. Go's runtime itself
// opens its share of the processor where it sees control groups.
func descriptors([]string) error {
	for fd := range 256 {
		if target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && !strings.HasPrefix(target, "anon_inode:") && !strings.HasPrefix(target, "/sys/fs/cgroup/") {
			fmt.Println(fd)
		}
	}
	return nil
}
