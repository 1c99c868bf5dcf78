package child

import (
	"cmp"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// always are the variables that every program may see: who and where it is, and its language.
var always = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "XDG_*", "SSL_CERT_*",
	"SYSTEMROOT", "SYSTEMDRIVE", "PATHEXT", "COMSPEC", "TEMP", "TMP", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "PROGRAMDATA",
}

// Environment returns the environment of a program: of this process's variables those that every program may see, and
// those that names allow, where a * stands for any letters. A name with a value, NAME=VALUE, is set to it.
func Environment(names ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if allows(always, name) || allows(names, name) {
			env = append(env, v)
		}
	}
	for _, n := range names {
		if strings.Contains(n, "=") {
			env = append(env, n)
		}
	}
	return env
}

func allows(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

var (
	secretName = regexp.MustCompile(`(?i)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)`)
	secretText = regexp.MustCompile(`(?i)(bearer\s+|basic\s+|(?:api[-_]?key|token|secret|password)["']?\s*[:=]\s*["']?|://[^/\s:@]*:)[^\s"'@,;]+|\bsk-[\w-]{8,}`)
)

const blot = "[redacted]"

// Redact blots out what looks like a secret: the values of variables of env whose names say so, and what follows words
// such as Bearer and password. It is a courtesy to those who log, no protection against a program.
func Redact(s string, env []string) string {
	var values []string
	for _, v := range env {
		if name, value, _ := strings.Cut(v, "="); secretName.MatchString(name) && len(value) >= 6 {
			values = append(values, value)
		}
	}
	slices.SortFunc(values, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may hold another
	for _, v := range values {
		s = strings.ReplaceAll(s, v, blot)
	}
	return secretText.ReplaceAllString(s, "${1}"+blot)
}
