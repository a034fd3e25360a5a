{{- define "osml.image" -}}
{{- $root := index . 0 -}}
{{ $root.Values.images.registry }}osml-{{ index . 1 }}:{{ $root.Values.images.tag }}
{{- end }}

{{- define "osml.serverUrl" -}}
{{- if and (not .Values.server.enabled) (not .Values.agent.serverUrl) }}
{{- fail "agent.serverUrl is empty, expected the address of a server, because server.enabled is false" }}
{{- end }}
{{- .Values.agent.serverUrl | default "http://osml-server:8080" }}
{{- end }}

{{- define "osml.serverPort" -}}
{{- $url := urlParse .Values.agent.serverUrl }}
{{- $port := regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) }}
{{- $port | default (eq $url.scheme "https" | ternary "443" "80") }}
{{- end }}

{{- /* The rule of a NetworkPolicy that lets look up names. Values of a chart without `dns` (--reuse-values) get the
       defaults of values.yaml. */}}
{{- define "osml.dns" -}}
{{- $dns := .Values.dns | default dict }}
{{- $system := dict "matchLabels" (dict "kubernetes.io/metadata.name" "kube-system") }}
- to: {{- toYaml ($dns.to | default (list (dict "namespaceSelector" $system))) | nindent 4 }}
  ports:
    {{- range $dns.ports | default (list 53) }}
    - {port: {{ . }}, protocol: UDP}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
{{- end }}

{{- /* "true" where the agent tells the API server anything; empty otherwise. */}}
{{- define "osml.reports" -}}
{{- with .Values.agent.report }}{{- if or .condition .events .batchCpu }}true{{- end }}{{- end }}
{{- end }}

{{- /* "true" where the agent asks or tells the API server anything; empty otherwise. */}}
{{- define "osml.asksApi" -}}
{{- if or (include "osml.reports" .) .Values.agent.discover.latencyTargets }}true{{- end }}
{{- end }}

{{- /* "true" where the configuration names the clock of CPUs, also to switch it off: the agent puts back what it set. */}}
{{- define "osml.limitsClock" -}}
{{- if hasKey (dig "levers" (dict) .Values.agent.config) "frequency" }}true{{- end }}
{{- end }}

{{- /* The same of interrupts. */}}
{{- define "osml.movesInterrupts" -}}
{{- if hasKey (dig "levers" (dict) .Values.agent.config) "interrupts" }}true{{- end }}
{{- end }}

{{- /* The agent's configuration: what the chart knows, and on top of it agent.config. NODE_NAME and NODE_IP are put in
       when the pod starts. */}}
{{- define "osml.agentConfig" -}}
{{- $agent := .Values.agent }}
{{- $roots := dict "cgroup" "/host/cgroup" }}
{{- if $agent.resctrl }}{{- $_ := set $roots "resctrl" "/host/resctrl" }}{{- end }}
{{- if include "osml.limitsClock" . }}{{- $_ := set $roots "sysfs" "/host/sys" }}{{- end }}
{{- if include "osml.movesInterrupts" . }}{{- $_ := set $roots "irq" "/host/irq" }}{{- end }}
{{- $config := dict
      "node" "NODE_NAME"
      "server" (dict "url" (include "osml.serverUrl" .) "token_file" "/run/secrets/osml/token")
      "on_exit" "leave"
      "state_dir" "/var/lib/osml"
      "roots" $roots
      "metrics" (dict "textfile" "/var/lib/prometheus/node-exporter/osml.prom")
      "log" (dict "format" "json")
      "services" $agent.services }}
{{- if $agent.kubelet.enabled }}
{{- $ca := eq $agent.kubelet.certificates "node" | ternary "/run/kubelet.crt" "/run/secrets/kubelet/ca.crt" }}
{{- $kubelet := dict
      "url" (printf "https://NODE_IP:%d/pods" (int $agent.kubelet.port))
      "server_name" "NODE_NAME"
      "token_file" "/run/secrets/kubelet/token"
      "ca_file" $ca }}
{{- if $agent.discover.namespaces }}
{{- $discover := dict "namespaces" $agent.discover.namespaces "datagram_directory" "/run/osml" }}
{{- with $agent.discover.datagramMode }}{{- $_ := set $discover "datagram_mode" . }}{{- end }}
{{- if $agent.discover.latencyTargets }}{{- $_ := set $discover "latency_targets" "on" }}{{- end }}
{{- $_ := set $kubelet "discover" $discover }}
{{- else if $agent.discover.latencyTargets }}
{{- fail "agent.discover.latencyTargets is true, expected namespaces in agent.discover.namespaces: whose pods may have them" }}
{{- end }}
{{- $_ := set $config "kubelet" $kubelet }}
{{- else if or $agent.discover.namespaces $agent.discover.latencyTargets }}
{{- fail "agent.discover is set, expected agent.kubelet.enabled true: the kubelet tells the pods" }}
{{- end }}
{{- if include "osml.asksApi" . }}
{{- $word := dict "true" "on" "false" "off" }}
{{- $_ := set $config "kubernetes" (dict
      "condition" (get $word (toString $agent.report.condition))
      "events" (get $word (toString $agent.report.events))
      "batch_cpu" (get $word (toString $agent.report.batchCpu))
      "token_file" "/run/secrets/kubelet/token"
      "ca_file" "/run/secrets/kubelet/ca.crt") }}
{{- end }}
{{- mergeOverwrite $config (deepCopy $agent.config) | toYaml }}
{{- end }}
