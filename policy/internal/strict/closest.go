package strict

import "strings"

// closest returns the word that somebody who wrote s most likely meant, or "".
func closest(s string, words []string) string {
	s = strings.ReplaceAll(strings.ToLower(s), "_", "-")
	best, least := "", 3
	for _, w := range words {
		if strings.TrimSuffix(s, "s") == strings.TrimSuffix(w, "s") {
			return w
		}
		if dist := editDistance(s, w); dist < least && dist < max(len(w), len(s))/2+1 {
			best, least = w, dist
		}
	}
	return best
}

// editDistance counts insertions, deletions, substitutions and swaps of
// neighbours between two short texts.
func editDistance(a, b string) int {
	const tooLong = 64
	if len(a) > tooLong || len(b) > tooLong {
		return tooLong
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, now := rows[(i-1)%3], rows[i%3], rows[(i+1)%3]
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
	}
	return rows[(len(a)+1)%3][len(b)]
}
