package site

// Backgrounds of both schemes. The style sheet uses the same values; a test
// keeps the two in step.
const (
	paperLight = "#fbfaf7"
	paperDark  = "#14171a"
)
