# Puts tether into a directory of the user. A client sends this script to the sh of the machine, behind settings (see script in deploy.go):
# v, the directory of the version; u, the number of the user; cache, runtime and shared, the directories to try; and the function safe. The
# client and the script talk over standard input and output. Each line of the script begins with "tether-deploy: ", and the script waits for the answer
# of a question before it writes anything.
umask 077
LC_ALL=C
export LC_ALL
host=$(uname -n)

say() { echo "tether-deploy: $*"; }
fail() { say failed "$*"; exit 1; }
ask() { say "$@"; read -r answer || exit 1; }
first_line() { printf '%s\n' "$1" | sed 1q; }
size_of() { n=$(wc -c <"$1" 2>/dev/null) || n=0; n=$((n)); }

# Of the programs that print a SHA-256, one is on every machine. The checksum is the only word of 64 hexadecimal digits that they print.
sum_of() {
	for tool in sha256sum "shasum -a 256" "openssl dgst -sha256 -r" "sha256 -q" "digest -a sha256"; do
		for word in $($tool <"$1" 2>/dev/null); do
			[ ${#word} -ne 64 ] || { echo "$word"; return; }
		done
	done
}

# Whether the program is in the directory of the version below the base $1.
has() {
	base=$1
	dir=$1/$v
	[ -x "$dir/tether" ] && [ "$(sum_of "$dir/tether")" = "$sum" ]
}

# Make the directory of the version below the base $1, and start a program in it. Of a base that other users could have made ($2), only
# that of the user counts.
try() {
	base=$1
	dir=$1/$v
	ask dir "$dir"
	if ! why=$(mkdir -p "$base" 2>&1); then
		:
	elif [ "$2" = shared ] && ! safe "$base"; then
		why="$base is accessible to other users, or is theirs"
		say unusable "$why"
		return 1
	elif ! why=$(mkdir -p "$dir" 2>&1 && chmod 700 "$dir" 2>&1); then
		:
	elif ! why=$( (printf '#!/bin/sh\nexit 0\n' >"$dir/.probe.$$" && chmod 700 "$dir/.probe.$$") 2>&1); then
		:
	elif ! why=$("$dir/.probe.$$" 2>&1); then
		why="the machine does not execute programs in $dir (is it mounted with noexec?)"
	else
		rm -f "$dir/.probe.$$"
		return 0
	fi
	say unusable "$(first_line "$why")"
	rm -f "$dir/.probe.$$" 2>/dev/null
	rmdir "$dir" "$base" 2>/dev/null
	return 1
}

# Take over what an earlier transfer of the same program has left: all of it, or a copy if that transfer may still go on. The checksum
# of the whole is compared later.
resume() {
	part=$dir/.part.$key.$host.$$
	why=$( (printf '' >"$part") 2>&1) || fail "cannot write $part: $(first_line "$why")"
	most=0
	for old in "$dir/.part.$key."*; do
		size_of "$old"
		if [ "$n" -gt "$most" ] && [ "$n" -lt "$size" ]; then
			case $old in
			"$dir/.part.$key.$host."*) kill -0 "${old##*.}" 2>/dev/null || { mv -f "$old" "$part" && most=$n; continue; } ;;
			esac
			cp "$old" "$part" 2>/dev/null && most=$n
		fi
	done
	size_of "$part"
}

receive() {
	# The rest of standard input is the program from byte $n on.
	why=$(cat 2>&1 >>"$part") || { rm -f "$part"; fail "cannot write $part: $(first_line "$why")"; }
	size_of "$part"
	[ "$n" -ge "$size" ] || exit 1 # the connection was cut: the next one continues
	if [ "$(sum_of "$part")" != "$sum" ]; then
		rm -f "$part"
		fail "the checksum of the copy is wrong; it was removed and not executed"
	fi
	chmod 700 "$part"
	why=$("$part" version 2>&1)
	case $why in
	"tether "*) ;;
	*) rm -f "$part"; fail "the program does not run there: $(first_line "$why")" ;;
	esac
	why=$(mv -f "$part" "$dir/tether" 2>&1) || { rm -f "$part"; fail "$(first_line "$why")"; }
}

# Remove the programs of other versions that no process executes. A disk of the network may have the programs of other machines, whose
# processes cannot be seen: nothing is removed there.
remove_old() {
	set -- $(df -P "$base" 2>/dev/null | sed 1d)
	case $1 in '' | [!/]*:* | //*) return ;; esac
	running=$(ls -l /proc/[0-9]*/exe 2>/dev/null; ps -A -o args 2>/dev/null || ps 2>/dev/null)
	[ -n "$running" ] || return
	real=$(cd "$base" && pwd -P) || return
	for old in "$base"/*/; do
		old=${old%/}
		[ -d "$old" ] && [ ! -L "$old" ] || continue
		find "$old" -name '.part.*' -mtime +1 -exec rm -f {} \; 2>/dev/null
		[ "$old" != "$dir" ] || continue
		if [ -f "$old/tether" ]; then
			case $running in *"$old/tether"* | *"$real/${old##*/}/tether"*) continue ;; esac
			say removing "$old/tether"
			rm -f "$old/tether"
		fi
		rmdir "$old" 2>/dev/null
	done
}

echo # the start-up files of the shell may have printed text without a line end
ask platform "$(uname -s) $(uname -m)"
set -- $answer
size=$1 sum=$2 key=$3
[ -n "$(sum_of /dev/null)" ] || fail "the machine has no program for SHA-256: sha256sum, shasum or openssl"
if has "$cache" || { safe "$runtime" && has "$runtime"; } || { safe "$shared" && has "$shared"; }; then
	say present "$dir"
	remove_old
	say done
	exit
fi
try "$cache" own || { [ -n "$XDG_RUNTIME_DIR" ] && try "$runtime" shared; } || try "$shared" shared ||
	fail "no directory of the machine can be used"
resume
say have "$n"
receive
say copied
remove_old
say done
