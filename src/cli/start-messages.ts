/** The output of `npm start`: the start-up banner, what an edit of the configuration changes, and would-be denials of dry runs. */
import { exampleKey, examplePolicy, requestCommand } from "./demo.ts";
import type { LocalSetup } from "./local-setup.ts";
import type { Policy } from "../policy/policy.ts";
import type { Config } from "../policy/vars/config.ts";
import { formatWindow } from "../strategies/index.ts";
import { isRecord, jsonOrNull } from "../validation/json.ts";
import { asText } from "../validation/problems.ts";

/** Policies and rules beyond these are counted. */
const mostNamed = 5;

/**
 * @param isKept whether the problems are those of a rejected edit, so that the previous configuration stays in effect
 */
export function problemsMessage(problems: readonly string[], isKept = false): string {
  const title = `The configuration has problems${isKept ? ", so the previous one stays in effect" : ""}:`;
  return [title, ...problems.map((problem) => `  ${problem}`)].join("\n");
}

const invalidConfigurationMessage = (url: string): string => `
Headgate is running at ${url}, but answers every request with 500 until its configuration is valid.
Correct [vars] in wrangler.toml, or .dev.vars; edits take effect within seconds. Stop with Ctrl-C.
`;

/** One line with the limits and the origin that are in effect after an edit; empty without a valid configuration. */
export function inEffectMessage(setup: LocalSetup, previous: LocalSetup): string {
  const { config, hasDemoOrigin, hasDemoLimits } = setup;
  if (config === null) return "";
  const demo = hasDemoLimits ? "the demo limits: " : "";
  const changed = setup.secretNames.filter(
    (name) => name in previous.variables && setup.variables[name] !== previous.variables[name],
  );
  const secrets = changed.length > 0 ? `; ${changed.join(", ")} changed` : "";
  return `In effect now: ${demo}${limitsText(config)}, in front of ${originText(config, hasDemoOrigin)}${secrets}.`;
}

function limitsText({ policies }: Config): string {
  const named = policies.slice(0, mostNamed).map(policyText);
  const others = policies.length - named.length;
  return [...named, ...(others > 0 ? [`and ${others} more`] : [])].join("; ");
}

function policyText({ name, limits, isDryRun }: Policy): string {
  const texts = limits.map((limit) => `${limit.limit} per ${formatWindow(limit)}`);
  return `${name} ${texts.join(" and ")}${isDryRun ? " (dry run)" : ""}`;
}

function originText({ origin }: Config, isDemoOrigin: boolean): string {
  if (isDemoOrigin) return "the demo origin";
  return origin.kind === "url" ? origin.url.origin : "the origin of the route";
}

/**
 * The banner of a running Worker.
 * @param rules the runtime rules in effect, as the admin API lists them
 */
export function startMessage(
  url: string,
  setup: Pick<LocalSetup, "config" | "hasDemoOrigin" | "hasDemoLimits" | "hasConsole">,
  rules: readonly Readonly<Record<string, unknown>>[] = [],
): string {
  const { config, hasDemoOrigin, hasDemoLimits } = setup;
  if (config === null) return invalidConfigurationMessage(url);
  const origin = hasDemoOrigin ? "a demo; set ORIGIN to use your own" : "your ORIGIN";
  const limits = hasDemoLimits
    ? "a demo: 5 requests per 10 seconds for each client address; set LIMITS or POLICIES to use your own"
    : `your policies: ${config.policies.map(({ name }) => name).join(", ")}`;
  const policy = examplePolicy(config);
  const commands =
    policy === undefined
      ? []
      : [requestCommand(url, policy), ...checkCommands(`${url}${config.checkPath}`, policy, config)];
  return `
Headgate is running at ${url}

  origin         ${origin}
  limits         ${limits}
  configuration  [vars] in wrangler.toml, secrets in .dev.vars; edits take effect within seconds${sampleLine(config)}${adminLines(url, setup)}${rulesLines(rules)}

Try these commands${hasDemoLimits ? ", the first one six times to be denied" : ""}:

${commands.map((command) => `  ${command}`).join("\n")}

Stop with Ctrl-C.
`;
}

/** The keys whose traffic is recorded; empty without a control plane that records it. */
function sampleLine({ admin, sampleOneKeyIn }: Config): string {
  if (admin === null) return "";
  if (sampleOneKeyIn === null) return "\n  traffic sample off";
  const recorded = sampleOneKeyIn === 1 ? "every key" : `1 key in ${sampleOneKeyIn}`;
  return `\n  traffic sample ${recorded}; a deployment without SAMPLE records 1 key in 64`;
}

/** Lines with the URL and a token of the admin API, and with links to the playground and to the console, signed in. */
function adminLines(url: string, { config, hasConsole }: Pick<LocalSetup, "config" | "hasConsole">): string {
  const admin = config?.admin ?? null;
  const [token] = (admin?.tokens ?? []).toSorted((one, other) => other.may.size - one.may.size);
  if (admin === null || token === undefined) return "";
  const api = `\n  admin API      ${url}${admin.path}/api`;
  if (!hasConsole || admin.host === null) return `${api} with the token ${token.token}`;
  const page = new URL(`${url}${admin.path}/#token=${encodeURIComponent(token.token)}`);
  page.hostname = admin.host;
  const playground = new URL("playground", page);
  return `\n  console        ${page.href}\n  playground     ${playground.href}${api} with the token of the console`;
}

/** Runtime rules are stored, so that those of earlier runs change the limits of this one. */
function rulesLines(rules: readonly Readonly<Record<string, unknown>>[]): string {
  if (rules.length === 0) return "";
  const shown = rules.slice(0, mostNamed).map(({ policy, kind, keyId, expiresAt }) => {
    const subject = typeof keyId === "string" ? `the key ${keyId.slice(0, 8)}…` : "all keys";
    const end = typeof expiresAt === "string" ? `until ${expiresAt}` : "without an end";
    return `${asText(policy)}: ${asText(kind)} for ${subject}, ${end}`;
  });
  const others = rules.length - shown.length;
  const title = `${rules.length === 1 ? "1 runtime rule" : `${rules.length} runtime rules`} of earlier runs in effect`;
  const lines = [
    `${title}; delete them in the console or with the admin API:`,
    ...shown,
    ...(others > 0 ? [`and ${others} more`] : []),
  ];
  return `\n  rules          ${lines.join(`\n${" ".repeat(17)}`)}`;
}

/** Three commands that look at, spend from and forget the key of the example request. */
function checkCommands(check: string, policy: Policy, { checkTokens }: Config): string[] {
  const [token] = checkTokens;
  if (token === undefined) return [];
  const keys = exampleKey(policy);
  const query = [`policy=${policy.name}`, ...keys.map((key) => `key=${encodeURIComponent(key)}`)].join("&");
  const key = keys.length === 1 ? keys[0] : keys;
  const body = JSON.stringify({ policy: policy.name, key, cost: 2 });
  const authorization = `-H "Authorization: Bearer ${token.token}"`;
  return [
    `curl -s ${authorization} "${check}?${query}"`,
    `curl -s ${authorization} -H "Content-Type: application/json" -d '${body}' ${check}`,
    `curl -s ${authorization} -X DELETE -i "${check}?${query}"`,
  ];
}

export const summaryPauseMs = 10_000;

interface WouldBeDenials {
  requests: number;
  readonly keys: Set<string>;
}

export class DryRunLines {
  readonly #print: (line: string) => void;
  /** The would-be denials of each policy since the last line about it. */
  readonly #counted = new Map<string, WouldBeDenials>();

  constructor(print: (line: string) => void) {
    this.#print = print;
  }

  /** Counts or prints a would-be denial. Returns false for any other line, which the caller must print. */
  takes(line: string): boolean {
    if (!line.startsWith('{"event":"dry-run-denied"')) return false;
    const event = jsonOrNull(line);
    if (!isRecord(event)) return false;
    const policy = asText(event["policy"]);
    const counted = this.#counted.get(policy);
    if (counted === undefined) {
      this.#print(line);
      this.#counted.set(policy, { requests: 0, keys: new Set() });
      if (this.#counted.size === 1) this.#summarizeLater();
    } else {
      counted.requests += 1;
      if (typeof event["key"] === "string") counted.keys.add(event["key"]);
    }
    return true;
  }

  #summarizeLater(): void {
    setTimeout(() => this.#summarize(), summaryPauseMs).unref();
  }

  /**
   * Prints a summary for each policy. After a pause without would-be denials, the next one is printed in full again.
   */
  #summarize(): void {
    for (const [policy, { requests, keys }] of this.#counted) {
      if (requests === 0) this.#counted.delete(policy);
      else {
        this.#print(summaryOf(policy, requests, keys.size));
        this.#counted.set(policy, { requests: 0, keys: new Set() });
      }
    }
    if (this.#counted.size > 0) this.#summarizeLater();
  }
}

const summaryOf = (policy: string, requests: number, keys: number): string => {
  const more = requests === 1 ? "1 more request" : `${requests} more requests`;
  return `Dry run of ${policy}: ${more} of ${keys === 1 ? "1 key" : `${keys} keys`} would have been denied in the last ${summaryPauseMs / 1_000} s.`;
};
