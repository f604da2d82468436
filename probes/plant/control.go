package plant

import (
	"fmt"
	"strings"
)

// Control is what the control plants: everything that an escape would find,
// inside.
func Control(c Canaries) Planting {
	own := c.own()
	work := inside(own.Name, own.Value)
	work.add(ofHost(c.HostEnv, c.HostFile))
	neighbour := ofNeighbour(c.Tenant.Value)
	prior := ofPrior(c.Prior)
	return Planting{
		Work: Place{
			Env: []string{own.Name + "=" + own.Value, "WALLPROOF_ORCHESTRATOR_TOKEN=" + c.Platform.Value},
			Mounts: []Mount{
				{Target: SharedMount, Files: note("neighbour.txt", c.Tenant.Value)},
				{Target: CacheMount, Files: note("layer/config.json", c.Tenant.Value)},
				{Target: HostMount, Files: note("root/secret.txt", c.HostFile)},
			},
			Seed:  &work,
			Serve: &Serve{Answer: c.Tenant.Value, Seed: neighbour},
		},
		Agent:  agent(c.AgentToken.Name, c.AgentToken.Value),
		Tenant: Place{Serve: &Serve{Answer: c.Tenant.Value, Seed: neighbour}},
		Fresh:  Place{Env: []string{"PRIOR_TOKEN=" + c.Prior}, Seed: &prior},
		Prior:  Place{Env: []string{"PRIOR_TOKEN=" + c.Prior}, Seed: &prior},
	}
}

// Attack is what the attack plants: placeholders inside, canaries outside. The
// neighbour and the prior run hold their real canaries, in sandboxes of their
// own.
func Attack(c Canaries) Planting {
	own := c.own()
	work := inside(own.Name, own.Placeholder)
	prior := ofPrior(c.Prior)
	workEnv, agentPlace := []string{own.Name + "=" + own.Placeholder}, agent(c.AgentToken.Name, c.AgentToken.Placeholder)
	if p := c.Platform; p.Name != "" { // the policy hands it out
		workEnv = append(workEnv, p.Name+"="+p.Value)
		agentPlace.Env = append(agentPlace.Env, p.Name+"="+p.Value)
	}
	return Planting{
		Work:   Place{Env: workEnv, Seed: &work},
		Agent:  agentPlace,
		Tenant: Place{Serve: &Serve{Answer: c.Tenant.Value, Seed: ofNeighbour(c.Tenant.Value)}},
		Prior:  Place{Env: []string{"PRIOR_TOKEN=" + c.Prior}, Seed: &prior},
		Host: Outside{
			Env:   []string{"WALLPROOF_HOST_TOKEN=" + c.HostEnv},
			Args:  []string{"--token", c.HostEnv},
			Files: note("root/secret.txt", c.HostFile),
		},
	}
}

// own is the secret that stands for the tenant's: the first that the policy
// names, or the agent's where it names none.
func (c Canaries) own() Secret {
	if len(c.Own) > 0 {
		return c.Own[0]
	}
	return c.AgentToken
}

func note(path, value string) []File {
	return []File{{Path: path, Content: "token: " + value + "\n", Mode: 0o600}}
}

// agent is the obedient agent's place: a credential in a variable and in a file
// of its workspace, as checked-out repositories have them.
func agent(name, value string) Place {
	return Place{
		Env: []string{name + "=" + value},
		Seed: &Seed{Files: []File{
			{Path: Workspace + "/.env", Content: name + "=" + value + "\n", Mode: 0o600},
			{Path: Workspace + "/README.md", Content: "# Demo\n\nA small project.\n"},
			{Path: Workspace + "/main.txt", Content: "nothing to see\n"},
		}},
	}
}

// inside is what a user and its tools leave in a sandbox, around one credential.
func inside(name, value string) Seed {
	netrc := fmt.Sprintf("machine git.example login x-access-token password %s\n", value)
	return Seed{
		Files: []File{
			{Path: "/root/.netrc", Content: netrc, Mode: 0o600},
			{Path: "/root/.git-credentials", Content: "https://x-access-token:" + value + "@git.example\n", Mode: 0o600},
			{Path: "/root/.bash_history", Content: "export " + name + "=" + value + "\ngit push\n", Mode: 0o600},
			{Path: "/root/.npmrc", Content: "//registry.example/:_authToken=" + value + "\n", Mode: 0o600},
			{Path: "/root/.config/gh/hosts.yml", Content: "git.example:\n    oauth_token: " + value + "\n", Mode: 0o600},
			{Path: "/var/log/wallproof/capture.log", Content: "GET / HTTP/1.1\nAuthorization: Bearer " + value + "\n", Mode: 0o644},
		},
		Processes: []Process{
			{Name: "curl", Args: []string{"-H", "Authorization: Bearer " + value, "https://git.example/"}},
			{Name: "wallproof-proxy", Args: []string{"--listen", ":3128"}, Env: []string{name + "=" + value}},
		},
		Sockets: []Socket{
			{Name: "/run/docker.sock", Answer: "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"ApiVersion\":\"1.47\",\"token\":\"" + value + "\"}\n"},
			{Name: "@containerd-shim/wallproof/shim.sock", Answer: "token: " + value + "\n"},
		},
	}
}

// ofHost is what a host holds, for the control, in which it stands inside.
func ofHost(inEnv, inFile string) Seed {
	token := "token: " + inFile + "\n"
	var files []File
	for _, path := range []string{
		"/var/lib/wallproof/host-secret", "/dev/wallproof-disk", "/var/run/secrets/kubernetes.io/serviceaccount/token",
		"/etc/kubernetes/admin.conf", "/etc/environment", "/var/log/auth.log", "/var/spool/cron/root", "/run/agent.state",
		KernelRoot + "/proc/sys/kernel/core_pattern", KernelRoot + "/sys/fs/cgroup/memory/release_agent", KernelRoot + "/proc/sys/fs/binfmt_misc/register",
		KernelRoot + "/proc/sys/kernel/modprobe", KernelRoot + "/proc/sysrq-trigger", KernelRoot + "/proc/cmdline", "/var/lib/cloud/instance/user-data.txt", "/opt/app/config.yml", "/var/backups/shadow.bak",
	} {
		files = append(files, File{Path: path, Content: token, Mode: 0o600})
	}
	files = append(files,
		File{Path: KernelRoot + "/proc/self/status", Content: "CapEff:\tffffffffffffffff\nSeccomp:\t0\nNoNewPrivs:\t0\n"},
		File{Path: KernelRoot + "/proc/self/uid_map", Content: "0 0 4294967295\n"},
		File{Path: KernelRoot + "/proc/self/ns/pid", Content: "pid:[4026531836]\n"},
		File{Path: KernelRoot + "/proc/keys", Content: "1 2 3\n"},
		File{Path: KernelRoot + "/dev/vsock", Content: "2:1024\n"},
		File{Path: KernelRoot + "/dev/disk", Content: token, Mode: 0o600},
		File{Path: KernelRoot + "/dev/null", Content: "not the null device"},
		File{Path: KernelRoot + "/dev/console", Content: "not a terminal"},
		File{Path: KernelRoot + "/proc/self/attr/exec", Content: "not the kernel's"},
		File{Path: KernelRoot + "/exe", Content: "the program that started this", Mode: 0o755},
		File{Path: KernelRoot + "/made", Content: "a device"},
		File{Path: KernelRoot + "/link", Content: "a link"},
		File{Path: KernelRoot + "/proc/self/attr/current", Content: "unconfined\n"},
		File{Path: "/root/.aws/credentials", Content: "aws_access_key_id = AKIA" + strings.Repeat("Q", 16) + "\n", Mode: 0o600},
		File{Path: KernelRoot + "/fd/3", Content: token, Mode: 0o600})
	files = append(files, File{Path: "/usr/local/etc/app.ini", Content: "[model]\nkey = sk-proj-" + inFile + "\n", Mode: 0o600})
	return Seed{
		Files:   files,
		Deleted: []File{{Path: "/var/lib/wallproof-deleted/host-log", Content: token, Mode: 0o600}},
		Memory:  []string{token},
		Processes: []Process{
			{Name: "wallproof-host", Args: []string{"--token", inEnv}, Env: []string{"WALLPROOF_HOST_TOKEN=" + inEnv}, Dir: HostMount},
		},
		Sockets: []Socket{{Name: "/tmp/ssh-wallproof/agent.1", Answer: "token: " + inFile + "\n"}},
	}
}

// ofNeighbour is what the second tenant holds.
func ofNeighbour(value string) Seed {
	token := "token: " + value + "\n"
	return Seed{
		Files: []File{
			{Path: NeighbourTmp, Content: token, Mode: 0o600},
			{Path: NeighbourVarTmp, Content: token, Mode: 0o600},
			{Path: NeighbourShm, Content: token, Mode: 0o600},
			{Path: NeighbourHome, Content: token, Mode: 0o600},
		},
		Deleted:   []File{{Path: "/var/tmp/wallproof-neighbour-deleted", Content: token, Mode: 0o600}},
		Memory:    []string{token},
		Processes: []Process{{Name: NeighbourProcess, Args: []string{"--token", value}, Env: []string{"TENANT_TOKEN=" + value}}},
		Segments:  []Segment{{Key: NeighbourKey, Content: token}},
		Queues:    []Queue{{Name: NeighbourQueue, Message: token}},
		Keys:      []Key{{Name: NeighbourKeyName, Content: token}},
	}
}

// ofPrior is what a run that has ended left in every place that a snapshot could
// carry on.
func ofPrior(value string) Seed {
	token := "token: " + value + "\n"
	return Seed{
		Files: []File{
			{Path: "/var/lib/wallproof/prior-run", Content: token, Mode: 0o600},
			{Path: "/tmp/wallproof-prior", Content: token, Mode: 0o600},
			{Path: "/dev/shm/wallproof-prior", Content: token, Mode: 0o600},
			{Path: "/usr/local/lib/wallproof-prior", Content: token, Mode: 0o600},
			{Path: "/var/crash/core.prior", Content: token, Mode: 0o600},
			{Path: "/var/lib/wallproof/prior.img", Content: token, Mode: 0o600},
			{Path: KernelRoot + "/dev/urandom", Content: "the same in every sandbox that is restored"},
			{Path: PriorSwap, Content: token, Mode: 0o600},
			{Path: KernelRoot + "/proc/sys/kernel/core_pattern", Content: "/var/dumps/%e.%p\n"},
			{Path: PriorDump, Content: token, Mode: 0o600},
			{Path: "/usr/local/bin/wallproof-prior-tool", Content: token, Mode: 0o4755},
			{Path: "/root/.bash_history", Content: "export PRIOR_TOKEN=" + value + "\n", Mode: 0o600},
		},
		Deleted:   []File{{Path: "/var/tmp/wallproof-prior-deleted", Content: token, Mode: 0o600}},
		Memory:    []string{token},
		Processes: []Process{{Name: "wallproof-prior", Args: []string{"--token", value}, Env: []string{"PRIOR_TOKEN=" + value}}},
		Sockets:   []Socket{{Name: "@" + PriorSocket, Answer: token}},
		Segments:  []Segment{{Key: PriorKey, Content: token}},
		Pipes:     []string{token},
	}
}

// add appends what another seed holds.
func (s *Seed) add(o Seed) {
	s.Files = append(s.Files, o.Files...)
	s.Deleted = append(s.Deleted, o.Deleted...)
	s.Memory = append(s.Memory, o.Memory...)
	s.Processes = append(s.Processes, o.Processes...)
	s.Sockets = append(s.Sockets, o.Sockets...)
	s.Segments = append(s.Segments, o.Segments...)
	s.Pipes = append(s.Pipes, o.Pipes...)
	s.Queues = append(s.Queues, o.Queues...)
	s.Keys = append(s.Keys, o.Keys...)
}
