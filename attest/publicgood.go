package attest

// PublicGood are the services of the public Sigstore deployment. Whatever is
// signed with them is public for ever: the signer's identity stands in the
// certificate, and certificate and digest in the logs. So nothing uses them
// unless it is asked to by name.
func PublicGood(withLog bool) Services {
	s := Services{
		Fulcio:     "https://fulcio.sigstore.dev",
		Timestamps: []string{"https://timestamp.sigstore.dev/api/v1/timestamp"},
	}
	if withLog {
		s.Rekor = []RekorLog{{URL: "https://rekor.sigstore.dev", Version: 1}}
	}
	return s
}
