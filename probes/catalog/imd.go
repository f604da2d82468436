package catalog

func imd() []Technique { return nil }
