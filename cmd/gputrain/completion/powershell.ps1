# In $PROFILE: gputrain completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName gputrain, gputrain.exe -ScriptBlock {
	param($word, $ast, $cursor)
	$words = @($ast.CommandElements | Select-Object -Skip 1 | ForEach-Object { "$_" })
	$new = @()
	if ($word -eq '') { $new = @('--new') }
	& "$($ast.CommandElements[0])" complete @new '--' @words | ForEach-Object {
		$value, $help = $_ -split "`t", 2
		[System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $(if ($help) { $help } else { $value }))
	}
}
