// Command guest plays the first process of a sandbox in the launcher's tests: it
// does what is written to it on the channel, a line each, and says how that went.
//
//	hello          its process number, and what kernel it sees
//	read NAME      a file's text, with | for newlines
//	exit N         ends
//	burn           uses CPU time from then on
//	eat N          takes N MiB of memory
//	fork N         starts so many processes that sleep
//	mount SIZE N   a tmpfs of that size and so many files at /work
//	panic          dies badly
package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

const channel = 3

func main() {
	if len(os.Args) > 1 && os.Args[1] == "sleep" {
		select {}
	}
	f := os.NewFile(channel, "channel")
	var kept [][]byte
	for scan := bufio.NewScanner(f); scan.Scan(); {
		word, arg, _ := strings.Cut(scan.Text(), " ")
		answer := "done"
		switch n, _ := strconv.Atoi(arg); word {
		case "hello":
			answer = fmt.Sprint(os.Getpid(), " ", release())
		case "read":
			text, err := os.ReadFile(arg)
			answer = strings.ReplaceAll(string(text), "\n", "|")
			if err != nil {
				answer = err.Error()
			}
		case "exit":
			os.Exit(n)
		case "burn":
			go func() {
				for {
				}
			}()
		case "eat":
			b := make([]byte, n<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			kept = append(kept, b)
		case "fork":
			answer = fork(n)
		case "mount":
			size, inodes, _ := strings.Cut(arg, " ")
			if err := syscall.Mount("scratch", "/work", "tmpfs", 0, "size="+size+",nr_inodes="+inodes); err != nil {
				answer = err.Error()
			}
		case "panic":
			panic("as told")
		}
		fmt.Fprintln(f, answer)
	}
	_ = kept
}

func release() string {
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		return err.Error()
	}
	var b []byte
	for _, c := range u.Release {
		if c != 0 {
			b = append(b, byte(c))
		}
	}
	return string(b)
}

func fork(n int) string {
	for i := range n {
		c := exec.Command("/proc/self/exe", "sleep")
		if err := c.Start(); err != nil {
			return fmt.Sprint(i, " ", err)
		}
	}
	return fmt.Sprint(n)
}
