# In ~/.bashrc: source <(gputrain completion bash)
_gputrain() {
	local IFS=$'\n'
	COMPREPLY=($("$1" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _gputrain gputrain
