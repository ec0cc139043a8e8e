// Code generated from presets/base.yaml by TestBaseIsItsText -update; DO NOT EDIT.

package policy

import "github.com/caisson-dev/caisson/api"

// baseLines says in which line of its text each value of base stands.
var baseLines = [...]struct {
	key  string
	line int
}{
	{"version", 5},
	{"trust", 6},
	{"tenants", 7},
	{"tier", 8},
	{"image", 9},
	{"limits", 10},
	{"limits.pids", 10},
	{"filesystem", 11},
	{"filesystem.read", 12},
	{"filesystem.read[0]", 13},
	{"filesystem.read[1]", 14},
	{"filesystem.read[2]", 15},
	{"filesystem.read[3]", 16},
	{"filesystem.read[4]", 17},
	{"filesystem.read[5]", 18},
	{"filesystem.read[6]", 19},
	{"filesystem.read[7]", 20},
	{"filesystem.read[8]", 21},
	{"filesystem.read[9]", 22},
	{"filesystem.read[10]", 23},
	{"filesystem.read[11]", 24},
	{"filesystem.read[12]", 25},
	{"filesystem.read[13]", 27},
	{"filesystem.read[14]", 28},
	{"filesystem.read[15]", 29},
	{"filesystem.read[16]", 30},
	{"filesystem.read[17]", 32},
	{"filesystem.read[18]", 33},
	{"filesystem.read[19]", 34},
	{"filesystem.read[20]", 35},
	{"filesystem.read[21]", 36},
	{"filesystem.read[22]", 37},
	{"filesystem.read[23]", 38},
	{"filesystem.read[24]", 39},
	{"filesystem.read[25]", 40},
	{"filesystem.read[26]", 41},
	{"filesystem.read[27]", 42},
	{"filesystem.read[28]", 43},
	{"filesystem.read[29]", 45},
	{"filesystem.read[30]", 46},
	{"filesystem.read[31]", 47},
	{"filesystem.read[32]", 48},
	{"filesystem.read[33]", 50},
	{"filesystem.read[34]", 51},
	{"filesystem.read[35]", 52},
	{"filesystem.read[36]", 53},
	{"filesystem.read[37]", 54},
	{"filesystem.read[38]", 55},
	{"filesystem.read[39]", 56},
	{"filesystem.read[40]", 57},
	{"filesystem.read[41]", 58},
	{"filesystem.read[42]", 59},
	{"filesystem.read[43]", 60},
	{"filesystem.read[44]", 61},
	{"filesystem.read[45]", 63},
	{"filesystem.read[46]", 64},
	{"filesystem.read[47]", 65},
	{"filesystem.read[48]", 66},
	{"filesystem.read[49]", 67},
	{"filesystem.read[50]", 68},
	{"filesystem.read[51]", 69},
	{"filesystem.read[52]", 71},
	{"filesystem.read[53]", 72},
	{"filesystem.read[54]", 73},
	{"filesystem.read[55]", 74},
	{"filesystem.read[56]", 75},
	{"filesystem.read[57]", 76},
	{"filesystem.read[58]", 77},
	{"filesystem.read[59]", 78},
	{"filesystem.read[60]", 79},
	{"filesystem.read[61]", 80},
	{"filesystem.read[62]", 81},
	{"filesystem.read[63]", 82},
	{"filesystem.read[64]", 83},
	{"filesystem.read[65]", 85},
	{"filesystem.read[66]", 86},
	{"filesystem.read[67]", 87},
	{"filesystem.read[68]", 88},
	{"filesystem.read[69]", 89},
	{"filesystem.read[70]", 90},
	{"filesystem.read[71]", 91},
	{"filesystem.read[72]", 92},
	{"filesystem.read[73]", 93},
	{"filesystem.read[74]", 94},
	{"filesystem.read[75]", 95},
	{"filesystem.read[76]", 96},
	{"filesystem.read[77]", 97},
	{"filesystem.read[78]", 98},
	{"filesystem.read[79]", 101},
	{"filesystem.read[80]", 102},
	{"filesystem.read[81]", 103},
	{"filesystem.read[82]", 104},
	{"filesystem.read[83]", 106},
	{"filesystem.read[84]", 107},
	{"filesystem.read[85]", 108},
	{"filesystem.read[86]", 109},
}

// baseFile is the preset that is underneath every policy.
func baseFile() *File {
	p := api.Policy{
		Version: 1,
		Trust:   "generated",
		Tenants: "one",
		Tier:    "auto",
		Image:   "host",
		Filesystem: api.Filesystem{
			Read: []string{
				"/usr", "/bin", "/sbin", "/lib",
				"/lib32", "/lib64", "/libx32", "/opt",
				"/nix/store", "/nix/var/nix/profiles", "/gnu/store", "/run/current-system",
				"/home/linuxbrew/.linuxbrew", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
				"/etc/alternatives", "/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem",
				"/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/crypto-policies",
				"/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/tls/openssl.cnf", "/etc/pki/ca-trust",
				"/etc/pki/java", "/etc/localtime", "/etc/timezone", "/etc/locale.alias",
				"/etc/locale.conf", "/etc/protocols", "/etc/services", "/etc/networks",
				"/etc/rpc", "/etc/ethertypes", "/etc/host.conf", "/etc/gai.conf",
				"/etc/mime.types", "/etc/magic", "/etc/magic.mime", "/etc/login.defs",
				"/etc/shells", "/etc/os-release", "/etc/lsb-release", "/etc/debian_version",
				"/etc/redhat-release", "/etc/fedora-release", "/etc/alpine-release", "/etc/arch-release",
				"/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/bashrc",
				"/etc/bash_completion.d", "/etc/zsh", "/etc/inputrc", "/etc/terminfo",
				"/etc/vim", "/etc/vimrc", "/etc/nanorc", "/etc/manpath.config",
				"/etc/groff", "/etc/perl", "/etc/python3", "/etc/python3.9",
				"/etc/python3.10", "/etc/python3.11", "/etc/python3.12", "/etc/python3.13",
				"/etc/python3.14", "/etc/java", "/etc/java-8-openjdk", "/etc/java-11-openjdk",
				"/etc/java-17-openjdk", "/etc/java-21-openjdk", "/etc/java-25-openjdk", "/etc/chromium.d/default-flags",
				"/etc/chromium.d/dev-shm", "/etc/chromium.d/extensions", "/etc/postgresql-common", "/etc/fonts",
				"/etc/glvnd", "/etc/OpenCL", "/etc/vulkan",
			},
		},
		Limits: api.Limits{
			Pids: 4096,
		},
	}
	return &File{Name: "preset base", Policy: p, base: true}
}

// baseLine is the line of a key of base, 0 if it is not there.
func baseLine(key string) int {
	for _, l := range baseLines {
		if l.key == key {
			return l.line
		}
	}
	return 0
}
