package e2e_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// chromium finds a browser.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium here, so that no page of a real browser is tried: scripts/setup --test installs it where a package registry can be reached")
	return ""
}

// A browser shows one page, until it is closed.
type browser struct {
	cmd     *exec.Cmd
	profile string
	ended   chan struct{}

	mu     sync.Mutex // guards output
	output bytes.Buffer
}

// browse starts a browser of its own, with a profile of its own, that knows no
// names but those of the test and protects this host from no page by itself.
func browse(t *testing.T, path, url string) *browser {
	t.Helper()
	dir, err := os.MkdirTemp("", "callcell-browser-")
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{profile: dir, ended: make(chan struct{})}
	b.cmd = exec.Command(path, "--headless=new", "--no-sandbox", "--user-data-dir="+dir, "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--no-default-browser-check", "--no-proxy-server", "--disable-background-networking", "--disable-component-update",
		"--disable-default-apps", "--disable-extensions", "--disable-sync", "--disable-breakpad", "--disable-crash-reporter", "--password-store=basic",
		"--disable-background-timer-throttling", "--disable-renderer-backgrounding",
		"--disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,Translate,MediaRouter,OptimizationHints",
		"--host-resolver-rules=MAP here.test 127.0.0.1, MAP turns.test 127.0.0.2, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost", url)
	b.cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_CACHE_HOME=" + dir}
	b.cmd.Dir = dir
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	b.cmd.Stdout, b.cmd.Stderr = b, b
	b.cmd.WaitDelay = 5 * time.Second // for what its children hold open
	if err := b.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		t.Fatal(err)
	}
	go func() {
		defer close(b.ended)
		_ = b.cmd.Wait() // it is killed
	}()
	return b
}

// Write takes what the browser says.
func (b *browser) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.output.Len() < 64<<10 {
		b.output.Write(p)
	}
	return len(p), nil
}

func (b *browser) said() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.output.String()
}

// close ends every process of the browser, and removes its profile.
func (b *browser) close() {
	_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	for deadline := time.Now().Add(20 * time.Second); b.kill() && time.Now().Before(deadline); {
	}
	<-b.ended
	os.RemoveAll(b.profile)
}

// kill ends what has the profile in its command line, and reports whether there
// was anything.
func (b *browser) kill() (any bool) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(line), b.profile) {
			continue
		}
		var pid int
		for _, digit := range filepath.Base(filepath.Dir(f)) {
			pid = pid*10 + int(digit-'0')
		}
		any = true
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	return any
}
