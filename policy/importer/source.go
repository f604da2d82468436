package importer

import (
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/internal/strict"
)

// The sources of secrets are those of a policy. Their texts are only taken over
// here; whether they are right is checked with the translated policy.

func text[T any](name string, at func(*T) *string) field[T] {
	return may(name, func(d *decoder, n *strict.Node, t *T) (err *strict.Error) {
		*at(t), err = d.Text(n)
		return err
	})
}

func number[T any](name string, at func(*T) *int64) field[T] {
	return may(name, func(d *decoder, n *strict.Node, t *T) (err *strict.Error) {
		*at(t), err = d.Integer(n, 1, 1<<31)
		return err
	})
}

var sourceFields = []field[policy.Source]{
	text("env", func(s *policy.Source) *string { return &s.Env }),
	text("file", func(s *policy.Source) *string { return &s.File }),
	text("gcp", func(s *policy.Source) *string { return &s.GCP }),
	may("vault", func(d *decoder, n *strict.Node, s *policy.Source) *strict.Error {
		s.Vault = &policy.VaultSource{Mount: "secret", Engine: 2}
		_, err := strict.DecodeMap(d, n, s.Vault, vaultSourceFields)
		return err
	}),
	may("aws", func(d *decoder, n *strict.Node, s *policy.Source) *strict.Error {
		s.AWS = &policy.AWSSource{}
		_, err := strict.DecodeMap(d, n, s.AWS, awsSourceFields)
		return err
	}),
	may("azure", func(d *decoder, n *strict.Node, s *policy.Source) *strict.Error {
		s.Azure = &policy.AzureSource{}
		_, err := strict.DecodeMap(d, n, s.Azure, azureSourceFields)
		return err
	}),
}

var vaultSourceFields = []field[policy.VaultSource]{
	text("address", func(v *policy.VaultSource) *string { return &v.Address }),
	text("namespace", func(v *policy.VaultSource) *string { return &v.Namespace }),
	text("mount", func(v *policy.VaultSource) *string { return &v.Mount }),
	text("path", func(v *policy.VaultSource) *string { return &v.Path }),
	text("field", func(v *policy.VaultSource) *string { return &v.Field }),
	number("version", func(v *policy.VaultSource) *int64 { return &v.Version }),
	number("engine", func(v *policy.VaultSource) *int64 { return &v.Engine }),
}

var awsSourceFields = []field[policy.AWSSource]{
	text("id", func(a *policy.AWSSource) *string { return &a.ID }),
	text("region", func(a *policy.AWSSource) *string { return &a.Region }),
	text("field", func(a *policy.AWSSource) *string { return &a.Field }),
	text("version", func(a *policy.AWSSource) *string { return &a.Version }),
}

var azureSourceFields = []field[policy.AzureSource]{
	text("vault", func(a *policy.AzureSource) *string { return &a.Vault }),
	text("secret", func(a *policy.AzureSource) *string { return &a.Secret }),
	text("version", func(a *policy.AzureSource) *string { return &a.Version }),
}
