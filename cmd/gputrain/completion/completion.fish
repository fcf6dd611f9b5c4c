# In ~/.config/fish/config.fish: gputrain completion fish | source
function __gputrain
	set -l words (commandline -opc)
	$words[1] complete -- $words[2..-1] (commandline -ct | string collect --allow-empty) 2>/dev/null
end
complete -c gputrain -n 'test (__gputrain | count) -gt 0' -f -a '(__gputrain)'
