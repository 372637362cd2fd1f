package envelope

import (
	"slices"
	"strings"
)

// maxVariable is the longest name of an environment variable, in bytes.
const maxVariable = 128

// CheckVariable reports whether a call may be allowed to set an environment
// variable of this name: letters, digits and _, no digit first, at most 128
// bytes, and none of those that are not for a call to set:
//
//   - LD_*, GLIBC_TUNABLES and GCONV_PATH steer the dynamic linker and the C
//     library of every program that starts in the cell, the parts of a level
//     among them;
//   - PATH, HOME, PWD, OLDPWD, TMPDIR, SHELL, USER and LOGNAME describe the
//     cell, and the cell sets them to what is so;
//   - HTTP_PROXY and its like, in either case, are set by the cell where a
//     call may reach hosts, and the way out does not depend on them;
//   - CALLCELL_* is ours.
//
// Names that steer one interpreter (PYTHONPATH, NODE_OPTIONS, BASH_ENV) are
// allowed: the code of a call is untrusted before it reads them.
//
// The error is a *FieldError with the field "environment".
func CheckVariable(name string) error { return asError(checkVariable("environment", name)) }

func checkVariable(field, name string) *FieldError {
	if name == "*" {
		return fault(field, "every variable cannot be allowed", "list the names that calls may set")
	}
	if !variableName(name) {
		return fault(field, quote(name)+" is not a variable's name", "use letters, digits and _, no digit first, at most 128 of them")
	}
	if reservedVariable(name) {
		return fault(field, name+" is not for a call to set", "leave it out: the cell sets what is so, or the program would be steered before it starts")
	}
	return nil
}

func reservedVariable(name string) bool {
	if strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "CALLCELL_") {
		return true
	}
	if strings.HasSuffix(strings.ToUpper(name), "_PROXY") {
		return true
	}
	return slices.Contains([]string{
		"GLIBC_TUNABLES", "GCONV_PATH",
		"PATH", "HOME", "PWD", "OLDPWD", "TMPDIR", "SHELL", "USER", "LOGNAME",
	}, name)
}

// variableName reports whether name is written as variables are.
func variableName(name string) bool {
	return nameText(strings.ReplaceAll(name, "_", "x"), maxVariable, "") && (name[0] < '0' || name[0] > '9')
}
