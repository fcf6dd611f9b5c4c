# In ~/.zshrc, after compinit: source <(gputrain completion zsh)
_gputrain() {
	local -a found
	found=("${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	found=("${(@)found:#}")
	if (( ! $#found )); then
		_files
		return
	fi
	found=("${(@)found//:/\\:}")
	found=("${(@)found/$'\t'/:}")
	_describe gputrain found
}
compdef _gputrain gputrain
