/** What a person sees when the Worker runs: where it is, what to try, and where the limits are set or wrong. */
import type { Config, Policy } from "../config/index.ts";
import { exampleKey, examplePolicy, requestCommand } from "./example-request.ts";

export interface Running {
  readonly url: string;
  readonly config: Config;
  readonly isDemoOrigin: boolean;
  readonly isDemoPolicy: boolean;
}

export function welcome({ url, config, isDemoOrigin, isDemoPolicy }: Running): string {
  const origin = isDemoOrigin ? "a demo origin, until you set ORIGIN" : "your ORIGIN";
  const limits = isDemoPolicy
    ? "5 requests per 10 seconds for each client address: a demo, until you set LIMITS or POLICIES"
    : `yours: ${config.policies.map(({ name }) => name).join(", ")}`;
  const policy = examplePolicy(config);
  const commands =
    policy === undefined
      ? []
      : [
          requestCommand(url, policy),
          ...checkCommands(`${url}${config.checkPath}`, policy, config),
        ];
  return `
Headgate is running at ${url}

  in front of   ${origin}
  limits        ${limits}
  configured in wrangler.toml, under [vars]; secrets in .dev.vars (edits take effect within seconds)

Try${isDemoPolicy ? ", and run the first one six times" : ""}:

${commands.map((command) => `  ${command}`).join("\n")}

Stop with Ctrl-C.
`;
}

/** Looks, spends and forgets, with the key of the example request. */
function checkCommands(check: string, policy: Policy, { checkTokens }: Config): string[] {
  const [token] = checkTokens;
  if (token === undefined) return [];
  const keys = exampleKey(policy);
  const query = [
    `policy=${policy.name}`,
    ...keys.map((key) => `key=${encodeURIComponent(key)}`),
  ].join("&");
  const key = keys.length === 1 ? keys[0] : keys;
  const body = JSON.stringify({ policy: policy.name, key, cost: 2 });
  const authorization = `-H "Authorization: Bearer ${token.token}"`;
  return [
    `curl -s ${authorization} "${check}?${query}"`,
    `curl -s ${authorization} -H "Content-Type: application/json" -d '${body}' ${check}`,
    `curl -s ${authorization} -X DELETE -i "${check}?${query}"`,
  ];
}
