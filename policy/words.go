package policy

import (
	"encoding/base64"
	"strings"

	"github.com/wallproof/wallproof/policy/host"
)

// The checks of single words. Each says in one place what a word of its kind is.

// made reports whether s has 1 to most bytes, each of which fits.
func made(s string, most int, fits func(byte) bool) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := 0; i < len(s); i++ {
		if !fits(s[i]) {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func printable(c byte) bool { return 0x20 < c && c < 0x7f }

func isTitle(s string) bool { return len(s) <= 128 }

// isMethod: an HTTP method of letters, digits, - and _ (RFC 9110 allows more,
// which nobody uses).
func isMethod(s string) bool {
	return made(s, 32, func(c byte) bool { return alphanumeric(c) || c == '-' || c == '_' })
}

// isVariable: the name of an environment variable (POSIX).
func isVariable(s string) bool {
	return made(s, 128, func(c byte) bool { return alphanumeric(c) || c == '_' }) && (s[0] < '0' || s[0] > '9')
}

// isSecretName: a name by which the policy and its logs call a secret.
func isSecretName(s string) bool {
	return made(s, 64, func(c byte) bool { return alphanumeric(c) || strings.IndexByte("_.-", c) >= 0 }) && alphanumeric(s[0])
}

func isPlaceholder(s string) bool { return len(s) >= minPlaceholder && made(s, 256, printable) }

// isHeader: the name of a header field that an injection may set. Fields that
// frame a message or belong to one hop are not among them.
func isHeader(s string) bool {
	if !made(s, 64, func(c byte) bool { return alphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 }) {
		return false
	}
	switch h := canonicalHeader(s); h {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "Te", "Trailer", "Expect":
		return false
	default:
		return !strings.HasPrefix(h, "Proxy-")
	}
}

// canonicalHeader writes a field name as net/http does: a capital at the start
// and after each hyphen.
func canonicalHeader(s string) string {
	b := []byte(s)
	upper := true
	for i, c := range b {
		switch {
		case upper && 'a' <= c && c <= 'z':
			b[i] = c - 'a' + 'A'
		case !upper && 'A' <= c && c <= 'Z':
			b[i] = c - 'A' + 'a'
		}
		upper = c == '-'
	}
	return string(b)
}

func isParam(s string) bool {
	return made(s, 64, func(c byte) bool { return alphanumeric(c) || strings.IndexByte("-._~", c) >= 0 })
}

func isPrefix(s string) bool {
	return made(s, 64, func(c byte) bool { return printable(c) || c == ' ' })
}

func isUsername(s string) bool {
	return made(s, 128, func(c byte) bool { return printable(c) && c != ':' })
}

// isEnding: the ending of an artefact's path.
func isEnding(s string) bool { return made(s, 64, printable) && !strings.ContainsAny(s, "?#*%") }

// isDigest: the digest of an artefact, in the notation of Pin.
func isDigest(s string) bool {
	algorithm, value, _ := strings.Cut(s, ":")
	if size, ok := map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}[algorithm]; ok {
		return len(value) == size && isLowerHex(value)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(value)
	return algorithm == "h1" && err == nil && len(raw) == 32
}

func isLowerHex(s string) bool {
	return made(s, len(s), func(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' })
}

// isImage: an image reference pinned by digest.
func isImage(s string) bool {
	name, digest, ok := strings.Cut(s, "@sha256:")
	return ok && name != "" && made(s, 512, printable) && len(digest) == 64 && isLowerHex(digest)
}

// isRepository: "owner/name", or deeper where a forge nests groups.
func isRepository(s string) bool {
	segments := strings.Split(s, "/")
	if len(segments) < 2 || len(segments) > 8 {
		return false
	}
	for _, seg := range segments {
		if !made(seg, 100, func(c byte) bool { return alphanumeric(c) || strings.IndexByte("_.-", c) >= 0 }) || strings.Trim(seg, ".") == "" {
			return false
		}
	}
	return true
}

// isRefPattern: a full ref (git-check-ref-format), with at most one *, at the end.
func isRefPattern(s string) bool {
	body := strings.TrimSuffix(s, "*")
	if !strings.HasPrefix(body, "refs/") || len(s) > 256 || strings.Contains(body, "..") || strings.Contains(body, "//") ||
		strings.Contains(body, "@{") || strings.HasSuffix(s, "/") || strings.HasSuffix(s, ".lock") || strings.HasSuffix(s, ".") {
		return false
	}
	return made(body, 256, func(c byte) bool { return printable(c) && strings.IndexByte("~^:?*[\\", c) < 0 })
}

// isModel: the id of a model, or "vendor/*".
func isModel(s string) bool {
	body := strings.TrimSuffix(s, "/*")
	return made(body, 128, func(c byte) bool { return alphanumeric(c) || strings.IndexByte("-._:@/", c) >= 0 }) && alphanumeric(s[0])
}

func isAbsolutePath(s string) bool {
	p, err := host.CleanPath(s)
	return err == nil && p == s && p != "/"
}

func isVaultPath(s string) bool {
	return made(s, 512, func(c byte) bool { return printable(c) && strings.IndexByte("?#%\\", c) < 0 }) &&
		!strings.HasPrefix(s, "/") && !strings.HasSuffix(s, "/") && !strings.Contains(s, "..") && !strings.Contains(s, "//")
}

// isGCPSecret: the resource name of a secret's version.
func isGCPSecret(s string) bool {
	p := strings.Split(s, "/")
	if len(p) != 6 || p[0] != "projects" || p[2] != "secrets" || p[4] != "versions" {
		return false
	}
	for _, i := range []int{1, 3, 5} {
		if !made(p[i], 255, func(c byte) bool { return alphanumeric(c) || strings.IndexByte("-_.:", c) >= 0 }) {
			return false
		}
	}
	return true
}

func isToken(s string) bool {
	return made(s, 512, func(c byte) bool { return alphanumeric(c) || strings.IndexByte("-_.:/+=@", c) >= 0 })
}
