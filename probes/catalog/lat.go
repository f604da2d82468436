package catalog

func lat() []Technique { return nil }
