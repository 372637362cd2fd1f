package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// Bare runs the command with nothing around it.
func Bare(argv []string) Subject {
	return Subject{Name: "bare exec", What: "fork, exec, wait", Run: command(argv...)}
}

// Command runs another program as people run it.
func Command(name, what string, argv ...string) Subject {
	return Subject{Name: name, What: what, Run: command(argv...)}
}

func command(argv ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		endWhole(cmd)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %.500s", err, out)
		}
		return nil
	}
}

// endWhole makes a command that is cancelled end with its children: one of a
// sandbox that waits for its parent would hold our pipe for ever.
func endWhole(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
}

// Peers returns the sandboxes that are installed here, each started as its
// own command, and a function that removes what they needed.
func Peers(argv []string) (peers []Subject, clean func(), err error) {
	clean = func() {}
	if path, err := exec.LookPath("bwrap"); err == nil {
		peers = append(peers, Command("bwrap", "bwrap --unshare-all, no limits",
			append([]string{path, "--unshare-all", "--ro-bind", "/", "/", "--"}, argv...)...))
	}
	path, lookErr := exec.LookPath("runc")
	if lookErr != nil || os.Geteuid() != 0 {
		return peers, clean, nil
	}
	dir, err := os.MkdirTemp("", "callcell-bench-")
	if err != nil {
		return nil, clean, err
	}
	clean = func() { os.RemoveAll(dir) }
	runc, err := runcSubject(path, dir, argv)
	if err != nil {
		return nil, clean, err
	}
	return append(peers, runc), clean, nil
}

// runcSubject makes a bundle whose root is a read-only view of this host's
// /usr, like our own image.
func runcSubject(runc, dir string, argv []string) (Subject, error) {
	root := filepath.Join(dir, "rootfs")
	for _, d := range []string{"usr", "proc", "dev", "sys", "etc", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return Subject{}, err
		}
	}
	for _, l := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+l, filepath.Join(root, l)); err != nil {
			return Subject{}, err
		}
	}
	if out, err := combined(runc, "spec", "--bundle", dir); err != nil {
		return Subject{}, fmt.Errorf("runc spec: %w: %s", err, out)
	}
	if err := editSpec(filepath.Join(dir, "config.json"), argv); err != nil {
		return Subject{}, err
	}
	var n atomic.Int64
	return Subject{Name: "runc", What: "runc run, its default spec", Run: func(ctx context.Context) error {
		id := fmt.Sprintf("callcell-bench-%d-%d", os.Getpid(), n.Add(1))
		return command(runc, "run", "--bundle", dir, id)(ctx)
	}}, nil
}

func combined(argv ...string) ([]byte, error) {
	return exec.Command(argv[0], argv[1:]...).CombinedOutput()
}

// editSpec makes runc's own template run argv over the host's /usr.
func editSpec(name string, argv []string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var spec map[string]any
	if err := json.Unmarshal(data, &spec); err != nil {
		return err
	}
	process, ok := spec["process"].(map[string]any)
	mounts, ok2 := spec["mounts"].([]any)
	if !ok || !ok2 {
		return errors.New("bench: runc's spec has no process or no mounts")
	}
	process["args"], process["terminal"] = argv, false
	spec["mounts"] = append(mounts, map[string]any{
		"destination": "/usr", "source": "/usr", "type": "bind", "options": []string{"rbind", "ro", "nosuid", "nodev"},
	})
	if data, err = json.Marshal(spec); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o600)
}
