module github.com/wallproof/wallproof/policy/proxy/bench

go 1.26.0

require (
	github.com/elazarl/goproxy v1.9.3
	github.com/wallproof/wallproof v0.0.0
)

require (
	github.com/andybalholm/brotli v1.3.0 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/miekg/dns v1.1.73 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/wallproof/wallproof => ../../..
