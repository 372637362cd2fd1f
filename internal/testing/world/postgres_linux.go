package world

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What a program says to the database to be let in. It speaks TLS alone.
const (
	DatabaseHost     = "db.test"
	DatabaseUser     = "reader"
	DatabasePassword = "let-me-in"
)

// postgresTime bounds the start of the database.
const postgresTime = time.Minute

// startPostgres makes a database below dir and serves it at addr.
func startPostgres(far *space, dir, addr string, ca *authority) (stop func() error, err error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	owner, err := postgresOwner()
	if err != nil {
		return nil, err
	}
	p := postgres{bin: bin, dir: dir, owner: owner}
	if err := p.prepare(ca); err != nil {
		return nil, fmt.Errorf("world: postgres: %w", err)
	}
	c := p.command("postgres", "-D", filepath.Join(dir, "data"), "-c", "listen_addresses="+addr, "-c", "unix_socket_directories="+dir,
		"-c", "dynamic_shared_memory_type=mmap", // nothing of it in /dev/shm, where other tests look for what cells left
		"-c", "ssl=on", "-c", "ssl_cert_file="+filepath.Join(dir, "cert.pem"), "-c", "ssl_key_file="+filepath.Join(dir, "key.pem"),
		"-c", "fsync=off", "-c", "max_connections=20", "-c", "shared_buffers=8MB")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.SysProcAttr.Setpgid = true
	if err := far.start(c); err != nil {
		return nil, fmt.Errorf("world: postgres: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	stop = func() error {
		if err := c.Process.Signal(syscall.SIGQUIT); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		<-ended
		return nil
	}
	if err := p.await(far, ended); err != nil {
		return nil, errors.Join(fmt.Errorf("world: postgres: %w\n%s", err, out.String()), stop())
	}
	return stop, nil
}

type postgres struct {
	bin, dir string
	owner    *syscall.Credential
}

// prepare makes the files of the database.
func (p *postgres) prepare(ca *authority) error {
	cert, key, err := ca.files(DatabaseHost)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"cert.pem": cert, "key.pem": key, "password": []byte(DatabasePassword + "\n"),
		"hba": []byte("local all all trust\nhostssl all all all scram-sha-256\n"),
	} {
		if err := os.WriteFile(filepath.Join(p.dir, name), text, 0o600); err != nil {
			return err
		}
		if err := os.Chown(filepath.Join(p.dir, name), int(p.owner.Uid), int(p.owner.Gid)); err != nil {
			return err
		}
	}
	if err := os.Chown(p.dir, int(p.owner.Uid), int(p.owner.Gid)); err != nil {
		return err
	}
	data := filepath.Join(p.dir, "data")
	c := p.command("initdb", "-D", data, "-U", DatabaseUser, "--pwfile="+filepath.Join(p.dir, "password"), "-A", "scram-sha-256", "--no-sync", "--no-locale", "-E", "UTF8")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return os.Rename(filepath.Join(p.dir, "hba"), filepath.Join(data, "pg_hba.conf"))
}

func (p *postgres) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(p.bin, name), args...)
	c.Dir, c.Env = p.dir, []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: p.owner}
	return c
}

// await waits until the database answers.
func (p *postgres) await(far *space, ended chan error) error {
	deadline := time.After(postgresTime)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c := p.command("psql", "-h", p.dir, "-U", DatabaseUser, "-d", "postgres", "-c", "select 1")
		if err := far.start(c); err != nil {
			return err
		}
		if c.Wait() == nil {
			return nil
		}
		select {
		case err := <-ended:
			ended <- err
			return fmt.Errorf("it ended: %w", err)
		case <-deadline:
			return errors.New("it does not answer")
		case <-tick.C:
		}
	}
}

// postgresBin is where its programs are: Debian has them beside the PATH.
func postgresBin() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err == nil && len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", fmt.Errorf("world: no PostgreSQL server: %w (scripts/setup installs it)", err)
	}
	return filepath.Dir(path), nil
}

// postgresOwner is who runs it: it refuses to be run by root.
func postgresOwner() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
	}
	return nil, fmt.Errorf("world: %w: neither postgres nor nobody is a user", unix.ENOENT)
}
