package project

import (
	"path"
	"strings"

	"github.com/callcell/callcell/envelope"
)

// A runner is a kind of file that tools of the host run, or let run something,
// without being asked for it by name.
type runner struct {
	why   string
	names []string // of the last component, in lower case; * at the front or the end stands for anything
	dirs  []string // whole directories, at any depth, in lower case
}

// runners is the table. It is long on purpose and never complete: a warning
// costs a look.
func runners() []runner {
	return []runner{
		{"make and its like run what it says", []string{"makefile", "gnumakefile", "*.mk", "justfile", "taskfile.yml", "taskfile.yaml", "rakefile", "sconstruct", "meson.build", "cmakelists.txt", "*.cmake", "configure", "configure.ac"}, nil},
		{"package managers run scripts that it names, and load what it names", []string{"package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "pnpm-workspace.yaml", "composer.json", "gemfile", "*.gemspec", "podfile", "mix.exs", "cargo.toml", "build.rs", "go.mod", "go.work"}, []string{".cargo", ".yarn"}},
		{"lock files say what is installed", []string{"package-lock.json", "yarn.lock", "pnpm-lock.yaml", "poetry.lock", "uv.lock", "cargo.lock", "gemfile.lock", "requirements*.txt"}, nil},
		{"Python runs it when it builds, tests or starts", []string{"setup.py", "setup.cfg", "pyproject.toml", "conftest.py", "sitecustomize.py", "usercustomize.py", "*.pth", "tox.ini", "noxfile.py", "pytest.ini"}, nil},
		{"build tools run what it says", []string{"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradlew", "gradlew.bat", "mvnw", "mvnw.cmd", "pom.xml", "build.xml", "build.sbt", "*.csproj", "*.targets", "*.props", "build", "build.bazel", "workspace", "module.bazel", ".bazelrc", "*.bzl"}, []string{".mvn", "buildsrc"}},
		{"JavaScript tools load it as code", []string{"*.config.js", "*.config.cjs", "*.config.mjs", "*.config.ts", "gulpfile.js", "gruntfile.js", ".eslintrc*", ".babelrc*", ".prettierrc*", ".mocharc*"}, nil},
		{"a shell or an editor loads it on entering the directory", []string{".envrc", ".env", ".env.*", ".bashrc", ".profile", ".zshrc", ".exrc", ".vimrc", ".nvimrc", ".dir-locals.el", ".editorconfig", ".tool-versions", "mise.toml", ".mise.toml", ".nvmrc", ".python-version", ".ruby-version", "*.code-workspace"}, []string{".vscode", ".idea", ".vim", ".devcontainer", ".direnv"}},
		{"git acts on it", []string{".gitattributes", ".gitmodules", ".gitconfig"}, []string{".githooks"}},
		{"hooks of git run what it says", []string{".pre-commit-config.yaml", ".pre-commit-hooks.yaml", "lefthook.yml", "lefthook.yaml", ".lintstagedrc*"}, []string{".husky"}},
		{"build servers run what it says, with their secrets", []string{".gitlab-ci.yml", "jenkinsfile", "azure-pipelines.yml", ".travis.yml", "appveyor.yml", "bitbucket-pipelines.yml", ".drone.yml", "cloudbuild.yaml", "buildspec.yml"}, []string{".github", ".circleci", ".buildkite", ".gitlab", ".woodpecker", ".forgejo", ".gitea"}},
		{"it says how images and machines are built", []string{"dockerfile", "dockerfile.*", "*.dockerfile", "containerfile", "docker-compose*.yml", "docker-compose*.yaml", "compose.yml", "compose.yaml", "vagrantfile", "*.tf", "flake.nix", "shell.nix", "default.nix"}, nil},
		{"agents take it for instructions, or start servers that it names", []string{"claude.md", "agents.md", "gemini.md", ".cursorrules", ".windsurfrules", ".clinerules", ".mcp.json", "mcp.json", ".aider.conf.yml"}, []string{".claude", ".cursor", ".windsurf", ".codex", ".gemini"}},
		{"it says what is left out of a tree", []string{".gitignore", ".callcellignore"}, nil},
	}
}

// warnings says why a change wants a second look; ran says whether what went in
// could be executed.
func warnings(c *envelope.Change, ran bool) (list []string) {
	name := strings.ToLower(c.Name)
	base, dirs := path.Base(name), strings.Split(path.Dir(name), "/")
	for _, r := range runners() {
		if r.matches(base, dirs) {
			list = append(list, r.why)
			break
		}
	}
	if c.Executable && !ran && c.Kind != envelope.ChangeRemoved {
		list = append(list, "it may be executed now")
	}
	return list
}

func (r *runner) matches(base string, dirs []string) bool {
	for _, pattern := range r.names {
		if matched, err := path.Match(pattern, base); err == nil && matched {
			return true
		}
	}
	for _, dir := range r.dirs {
		for _, at := range dirs {
			if at == dir {
				return true
			}
		}
	}
	return false
}
