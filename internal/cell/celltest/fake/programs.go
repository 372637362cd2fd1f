package fake

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/cell/celltest"
)

// Dialect writes the programs of the suite for this runtime: the name of a
// kind is the name of its program.
type Dialect struct{}

// Script implements celltest.Dialect.
func (Dialect) Script(kind celltest.Kind, args ...string) []string {
	return append([]string{"/bin/" + string(kind)}, args...)
}

// suite returns the programs of the suite, by kind.
func suite() map[string]Program {
	programs := map[string]Program{}
	for kind, p := range map[celltest.Kind]Program{
		celltest.Print:    printArgs,
		celltest.Exit:     func(p *Proc) Status { return Exit(p.number(0)) },
		celltest.Signal:   func(p *Proc) Status { return Signal(p.number(0)) },
		celltest.Cat:      catStdin,
		celltest.Env:      printEnv,
		celltest.Home:     printHome,
		celltest.Streams:  printStreams,
		celltest.Runnable: isRunnable,
		celltest.List:     list,
		celltest.Litter:   litter,
		celltest.Zeros:    zeros,
		celltest.Hang:     hang,
		celltest.Flood:    func(p *Proc) Status { return flood(p.Stdout) },
		celltest.FloodErr: func(p *Proc) Status { return flood(p.Stderr) },
		celltest.Orphans:  orphans,
		celltest.Zoo:      zoo,
		celltest.Many:     many,
		celltest.Sparse: func(p *Proc) Status {
			return check(p.Files.Write("sparse", make([]byte, p.number(0)), false))
		},
	} {
		programs[string(kind)] = p
	}
	return programs
}

// number returns an argument as a number; a program of the suite that gets
// none is a mistake of the suite.
func (p *Proc) number(i int) int {
	n, err := strconv.Atoi(p.Args[i])
	if err != nil {
		panic(err)
	}
	return n
}

// check exits with 0 where all went well and with 1 where not.
func check(errs ...error) Status {
	for _, err := range errs {
		if err != nil {
			return Exit(1)
		}
	}
	return Exit(0)
}

func printArgs(p *Proc) Status {
	for _, arg := range p.Args {
		if _, err := io.WriteString(p.Stdout, arg+"\x00"); err != nil {
			return Exit(1)
		}
	}
	return Exit(0)
}

func printEnv(p *Proc) Status {
	for _, line := range p.Env {
		if _, err := io.WriteString(p.Stdout, line+"\x00"); err != nil {
			return Exit(1)
		}
	}
	return Exit(0)
}

func catStdin(p *Proc) Status {
	_, err := io.Copy(p.Stdout, p.Stdin)
	return check(err)
}

func printHome(p *Proc) Status {
	home := ""
	for _, line := range p.Env {
		if dir, ok := strings.CutPrefix(line, "HOME="); ok {
			home = dir
		}
	}
	_, err := fmt.Fprintf(p.Stdout, "%s\n%s\n", cell.WorkDir, home)
	return check(err, p.Files.Write("home-is-writable", nil, false))
}

func printStreams(p *Proc) Status {
	for i, w := range []io.Writer{p.Stdout, p.Stderr} {
		data, err := p.Files.Read(p.Args[i])
		if err != nil {
			return Exit(1)
		}
		if _, err := w.Write(data); err != nil {
			return Exit(1)
		}
	}
	return Exit(0)
}

func isRunnable(p *Proc) Status {
	if p.Files.Executable(p.Args[0]) {
		return Exit(0)
	}
	return Exit(1)
}

func list(p *Proc) Status {
	_, err := io.WriteString(p.Stdout, strings.Join(p.Files.Names(), "\n")+"\n")
	return check(err)
}

func litter(p *Proc) Status {
	text := []byte(p.Args[0])
	return check(p.Files.Write("litter-work", text, false), p.Files.Write("/tmp/litter-tmp", text, false),
		p.Files.Write("/dev/shm/litter-shm", text, false))
}

func zeros(p *Proc) Status {
	block := make([]byte, 64<<10)
	for left := p.number(0); left > 0; left -= len(block) {
		block = block[:min(left, len(block))]
		if _, err := p.Stdout.Write(block); err != nil {
			return Exit(1)
		}
	}
	return Exit(0)
}

func hang(p *Proc) Status {
	if _, err := io.WriteString(p.Stdout, "ready"); err != nil {
		return Exit(1)
	}
	<-p.Done()
	return Exit(0)
}

func flood(w io.Writer) Status {
	block := []byte(strings.Repeat("flood\n", 1000))
	for {
		if _, err := w.Write(block); err != nil {
			return Exit(1)
		}
	}
}

func orphans(p *Proc) Status {
	begun := make(chan struct{}, 2)
	for _, name := range []string{"ticks", "tocks"} {
		stdout := p.Stdout
		p.Start(func() {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for first := true; ; first = false {
				_ = p.Files.Append(name, []byte("tick\n")) // full scratch: go on all the same
				if name == "ticks" {
					_, _ = io.WriteString(stdout, "late\n") // shut after the main program: go on
				}
				if first {
					begun <- struct{}{}
				}
				select {
				case <-tick.C:
				case <-p.Done():
					return
				}
			}
		})
	}
	for range cap(begun) {
		select {
		case <-begun:
		case <-p.Done(): // which may be before the second was started
			return Exit(1)
		}
	}
	_, err := io.WriteString(p.Stdout, "done")
	return check(err)
}

func zoo(p *Proc) Status {
	f := p.Files
	return check(
		f.Write("plain", []byte("plain"), false), f.Write("empty", nil, false), f.Dir("void"),
		f.Link("link"), f.Link("away"), f.Link("nowhere"), f.Link("dirlink"), f.Fifo("fifo"),
		f.Write("dir/a", []byte("a"), false), f.Write("dir/b", []byte("bb"), false),
		f.Write("dir/sub/c", []byte("ccc"), false), f.Link("dir/link"), f.Fifo("dir/fifo"),
	)
}

func many(p *Proc) Status {
	for i := range p.number(0) {
		if err := p.Files.Write(fmt.Sprintf("many/f%d", i), make([]byte, p.number(1)), false); err != nil {
			return Exit(1)
		}
	}
	return Exit(0)
}
