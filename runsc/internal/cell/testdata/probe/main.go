// Command probe is the first process of the tests' sandboxes.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	switch args := os.Args[1:]; args[0] {
	case "exit":
		fmt.Println("out")
		fmt.Fprintln(os.Stderr, "err")
		n, _ := strconv.Atoi(args[1])
		os.Exit(n)
	case "signal":
		n, _ := strconv.Atoi(args[1])
		child(syscall.Signal(n))
	case "echo": // what comes by descriptor 3 goes back, in capitals
		f := os.NewFile(3, "channel")
		b := make([]byte, 64)
		for {
			n, err := f.Read(b)
			if n == 0 || err != nil {
				return
			}
			io.WriteString(f, strings.ToUpper(string(b[:n])))
		}
	case "net":
		network(args[1:])
	case "show":
		show()
	case "wait":
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		fmt.Println("ready")
		<-c
		fmt.Println("terminated")
	}
}

// child ends with a signal: PID 1 cannot.
func child(sig syscall.Signal) {
	signal.Reset(sig)
	syscall.Kill(os.Getpid(), sig)
	select {}
}

// network listens everywhere, and says which addresses get there.
func network(addrs []string) {
	l, err := net.Listen("tcp", "0.0.0.0:443")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, c.LocalAddr().String())
			c.Close()
		}
	}()
	for _, a := range addrs {
		c, err := net.DialTimeout("tcp", net.JoinHostPort(a, "443"), 2*time.Second)
		if err != nil {
			fmt.Println(a, "no")
			continue
		}
		b, _ := io.ReadAll(c)
		fmt.Println(a, string(b))
	}
}

// show prints what the program sees of its place.
func show() {
	for _, name := range []string{"/proc/version", "/proc/meminfo", "/proc/mounts", "/proc/self/status"} {
		b, err := os.ReadFile(name)
		fmt.Printf("%s %v\n%s", name, err, b)
	}
	entries, err := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		target, _ := os.Readlink("/proc/self/fd/" + e.Name())
		fmt.Println("fd", e.Name(), target)
	}
	fmt.Println(err, os.Environ())
}
