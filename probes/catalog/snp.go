package catalog

func snp() []Technique { return nil }
