package launcher

import (
	"os/exec"
	"strings"
	"testing"
)

// TestExplain: what is explained is what is done, and needs nobody's leave.
func TestExplain(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want []string
		not  string
	}{
		"a cell": {[]string{"-explain"}, []string{"# seen of this host", "/usr ", "cover /etc/resolv.conf", "bind /run", "/etc/passwd", "filter system calls", "landlock_restrict_self"}, "make it the root"},
		"a cell with a kernel of its own": {[]string{"-explain", "userkernel"},
			[]string{"/proc/self/auxv ", "unshare user namespace", "exec callcell-runsc", "-exec-fd=", "-loopback=198.18.0.1/15", `"destination":"/opt/callcell"`, "CAP_SYS_ADMIN"}, "filter system calls"},
		"the egress process": {[]string{"-explain", "egress"}, []string{"make it the root", "filter system calls", "accept4", "execveat", "exec callcell-egress"}, "openat"},
		"the unpacker":       {[]string{"-explain", "unpack"}, []string{"attach the staging", "make it the root", "filter system calls", "symlinkat", "fchmodat", "exec callcell-image"}, "connect"},
	} {
		out, err := exec.Command(helper("callcell-launcher"), tt.args...).Output()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range tt.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: no %q in\n%s", name, want, out)
			}
		}
		if strings.Contains(string(out), "\n"+tt.not) || strings.Contains(string(out), " "+tt.not+" ") {
			t.Errorf("%s: %q is there", name, tt.not)
		}
	}
	for _, args := range [][]string{{"-explain", "x"}, {"-explain", "egress", "x"}, {"egress"}} {
		if err := exec.Command(helper("callcell-launcher"), args...).Run(); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
