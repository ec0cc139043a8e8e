package policy

import "strings"

// didYouMean is the hint for a word that is not in a closed list: the nearest
// one if it is near, else all of them.
func didYouMean(word string, words []string) string {
	best, near := "", len(word)/2+1
	for _, w := range words {
		if n := Distance(strings.ToLower(word), w); n < near {
			best, near = w, n
		}
	}
	if best != "" {
		return "write " + best
	}
	return "known here: " + strings.Join(words, ", ")
}

// Distance is the number of letters to insert, remove, replace or swap with
// their neighbour to make b of a; 64 for words longer than that.
func Distance(a, b string) int {
	const most = 64 // longer words are no typing errors
	if len(a) > most || len(b) > most {
		return most
	}
	var rows [3][most + 1]int
	for j := range len(b) + 1 {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur, prev, before := &rows[i%3], &rows[(i+2)%3], &rows[(i+1)%3]
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
	}
	return rows[len(a)%3][len(b)]
}
