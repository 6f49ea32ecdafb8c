#!/bin/sh
# Installs tether on Linux or macOS:
#
#     curl -fsSL https://github.com/tetherexec/tether/releases/latest/download/install.sh | sh
#
# It downloads the archive for this machine, compares it with its SHA-256 checksum, and copies programs, manual pages and
# completions to --prefix. It changes nothing else. `install.sh --help` lists the options.
set -eu

releases=https://github.com/tetherexec/tether/releases

usage() {
	cat <<'TEXT'
Usage: install.sh [--prefix DIR] [--version VERSION] [--from URL|DIR]

  --prefix DIR       where to install: programs in DIR/bin, manual pages and completions in DIR/share
                     (default /usr/local if this user may write there, else ~/.local)
  --version VERSION  the version to install, such as v0.1.0 (default the latest)
  --from URL|DIR     where the archive and SHA256SUMS are (default the releases on GitHub)
TEXT
}

fail() {
	printf 'install.sh: %s\n' "$*" >&2
	exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# platform prints the name that this machine has in the names of archives.
platform() {
	case "$(uname -s)" in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) fail "there is no archive for $(uname -s). For Windows there is a zip file at $releases; for others: go install github.com/tetherexec/tether/cmd/tether@latest" ;;
	esac
	case "$(uname -m)" in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "there is no archive for the processor $(uname -m). Build tether from its source: go install github.com/tetherexec/tether/cmd/tether@latest" ;;
	esac
	echo "${os}_$arch"
}

# fetch NAME copies a file of the release to the temporary directory.
fetch() {
	case "$from" in
	http://* | https://*)
		if has curl; then
			curl -fsSL --retry 2 -o "$temporary/$1" "$from/$1" || fail "cannot download $from/$1"
		elif has wget; then
			wget -q -O "$temporary/$1" "$from/$1" || fail "cannot download $from/$1"
		else
			fail "neither curl nor wget is installed: install one, or download the files and use --from DIR"
		fi
		;;
	*) cp "$from/$1" "$temporary/$1" || fail "cannot read $from/$1" ;;
	esac
}

# checksum FILE prints the SHA-256 of a file.
checksum() {
	if has sha256sum; then
		sha256sum <"$1" | cut -d ' ' -f 1
	elif has shasum; then
		shasum -a 256 <"$1" | cut -d ' ' -f 1
	elif has openssl; then
		openssl dgst -sha256 -r <"$1" | cut -d ' ' -f 1
	else
		fail "neither sha256sum, shasum nor openssl is installed, so the archive cannot be verified"
	fi
}

# place FILE DESTINATION MODE puts a file in place in one step, so that a running program stays as it is.
place() {
	mkdir -p "$(dirname "$2")" 2>/dev/null && cp "$1" "$2.new" 2>/dev/null && chmod "$3" "$2.new" && mv -f "$2.new" "$2" ||
		fail "cannot write $2: choose another directory with --prefix, or use sudo"
}

# writable DIR says whether this user can make files in a directory, which need not exist yet.
writable() {
	directory=$1
	while [ ! -e "$directory" ]; do directory=$(dirname "$directory"); done
	[ -d "$directory" ] && [ -w "$directory" ]
}

main() {
	prefix='' version='' from=''
	while [ $# -gt 0 ]; do
		case "$1" in
		--*=*)
			option=${1%%=*} value=${1#*=}
			shift
			set -- "$option" "$value" "$@"
			;;
		esac
		case "$1" in
		-h | --help) usage && exit 0 ;;
		--prefix | --version | --from)
			[ $# -ge 2 ] && [ -n "$2" ] || fail "$1 needs a value"
			case "$1" in
			--prefix) prefix=$2 ;;
			--version) version=$2 ;;
			--from) from=${2%/} ;;
			esac
			shift 2
			;;
		*) fail "unknown argument $1; install.sh --help lists the options" ;;
		esac
	done

	if [ -z "$from" ]; then
		from=$releases/latest/download
		[ -z "$version" ] || from=$releases/download/v${version#v}
	fi
	if [ -z "$prefix" ]; then
		prefix=/usr/local
		writable /usr/local/bin || prefix=${HOME:?}/.local
	fi
	case "$prefix" in /*) ;; *) prefix=$PWD/$prefix ;; esac
	writable "$prefix/bin" || fail "this user cannot write to $prefix/bin: choose another directory with --prefix, or use sudo"
	machine=$(platform)

	temporary=$(mktemp -d)
	trap 'rm -rf "$temporary"' EXIT
	trap 'exit 1' HUP INT TERM
	fetch SHA256SUMS
	# The name of the archive has the version, which SHA256SUMS tells.
	line=$(grep "  tether_[^ /]*_$machine\.tar\.gz\$" "$temporary/SHA256SUMS") || fail "$from/SHA256SUMS has no archive for $machine"
	[ "$(echo "$line" | wc -l)" -eq 1 ] || fail "$from/SHA256SUMS has several archives for $machine: keep the files of each release in a directory of its own"
	archive=${line##* }
	number=${archive#tether_}
	number=${number%"_$machine.tar.gz"}
	[ -z "$version" ] || [ "$number" = "${version#v}" ] || fail "$from has version $number, not ${version#v}"
	fetch "$archive"
	[ "$(checksum "$temporary/$archive")" = "${line%% *}" ] || fail "$archive does not have the checksum of SHA256SUMS: it is damaged, or was replaced. Nothing was installed"

	tar -xzf "$temporary/$archive" -C "$temporary" || fail "cannot unpack $archive"
	cd "$temporary/${archive%.tar.gz}"
	# tether comes last: until then the old one runs, and the new one finds programs of its own version.
	for program in tether-mcp tether-fleet tether; do place "bin/$program" "$prefix/bin/$program" 755; done
	for page in man/man1/*; do place "$page" "$prefix/share/$page" 644; done
	place completions/bash/tether "$prefix/share/bash-completion/completions/tether" 644
	place completions/zsh/_tether "$prefix/share/zsh/site-functions/_tether" 644
	place completions/fish/tether.fish "$prefix/share/fish/vendor_completions.d/tether.fish" 644
	for text in LICENSE THIRD-PARTY-LICENSES; do place "$text" "$prefix/share/doc/tether/$text" 644; done

	installed=$("$prefix/bin/tether" version) || fail "$prefix/bin/tether does not run on this machine"
	echo "installed $installed in $prefix/bin"
	case ":$PATH:" in
	*":$prefix/bin:"*) ;;
	*) echo "$prefix/bin is not in PATH: add it, for example in ~/.profile: export PATH=\"$prefix/bin:\$PATH\"" ;;
	esac
}

# All is read before anything runs, so a download that breaks off does nothing.
main "$@"
