package world

import (
	"fmt"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// GitFile is the one file of the repository at /git/repo.git, and GitText what
// is in it.
const (
	GitFile = "answer.txt"
	GitText = "42\n"
)

// repository makes the repository below dir and serves it as git does over
// HTTP.
func repository(dir string) (http.Handler, error) {
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("world: git: %w", err)
	}
	backend := filepath.Join(strings.TrimSpace(string(out)), "git-http-backend")
	tree, repo := filepath.Join(dir, "tree"), filepath.Join(dir, "repo.git")
	if err := os.Mkdir(tree, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(tree, GitFile), []byte(GitText), 0o600); err != nil {
		return nil, err
	}
	env := append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+dir,
		"GIT_AUTHOR_NAME=world", "GIT_AUTHOR_EMAIL=world@world.test", "GIT_COMMITTER_NAME=world", "GIT_COMMITTER_EMAIL=world@world.test")
	for _, args := range []string{"init -q -b main .", "add .", "commit -q -m one", "clone -q --bare . " + repo} {
		c := exec.Command("git", strings.Fields(args)...)
		c.Dir, c.Env = tree, env
		if out, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("world: git %s: %w\n%s", args, err, out)
		}
	}
	return &cgi.Handler{
		Path: backend, Root: "/git", Logger: silent(), Stderr: nowhere{},
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME=" + dir},
	}, nil
}

// nowhere takes what nobody wants to read.
type nowhere struct{}

// Write implements io.Writer.
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
