{{- /* The nanoseconds of a duration, whose form the schema validates. With its limits on digits, no sum overflows. */}}
{{- define "hustings.nanoseconds" -}}
{{- $units := dict "h" 3600000000000 "m" 60000000000 "s" 1000000000 "ms" 1000000 }}
{{- $sum := 0 }}
{{- range regexFindAll "[0-9.]+[a-z]+" . -1 }}
{{- $unit := get $units (regexFind "[a-z]+" .) }}
{{- $parts := regexFind "[0-9.]+" . | splitList "." }}
{{- $billionths := printf "%s000000000" (rest $parts | join "") | trunc 9 | atoi }}
{{- $sum = add $sum (mul (first $parts | atoi) $unit) (div (mul $billionths (div $unit 1000000)) 1000) }}
{{- end }}
{{- $sum }}
{{- end }}
