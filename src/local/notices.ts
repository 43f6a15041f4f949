/** What `npm start` prints about its configuration: problems, and after an edit what is in effect. */
import type { Config, Policy } from "../config/index.ts";
import { formatWindow } from "../strategies/index.ts";
import type { Plan } from "./plan.ts";

/** As many policies as one line can name. */
const namedPolicies = 5;

/** The problems of an edit, or of the first configuration. */
export function problemsOf(problems: readonly string[], isServing: boolean): string {
  const first = isServing
    ? "The configuration has problems, so the previous one stays in effect:"
    : "The configuration has problems:";
  return `${first}\n${problems.map((problem) => `  ${problem}`).join("\n")}`;
}

/** Instead of a welcome, while there is no valid configuration. */
export const complaint = (url: string): string => `
Headgate is running at ${url}, but answers every request with 500 until its configuration is correct.
Correct it in wrangler.toml, under [vars], or in .dev.vars: edits take effect within seconds. Stop with Ctrl-C.
`;

/** One line: the limits and the origin that are in effect after an edit. */
export function inEffect(plan: Plan, previous: Plan): string {
  const { config, isDemoOrigin, isDemoPolicy } = plan;
  if (config === null) return "";
  const demo = isDemoPolicy ? "the demo limits: " : "";
  const changed = plan.secretNames.filter(
    (name) => name in previous.variables && plan.variables[name] !== previous.variables[name],
  );
  const secrets = changed.length > 0 ? `; ${changed.join(", ")} changed` : "";
  return `In effect now: ${demo}${limitsOf(config)}, in front of ${originOf(config, isDemoOrigin)}${secrets}.`;
}

function limitsOf({ policies }: Config): string {
  const named = policies.slice(0, namedPolicies).map(limitsOfPolicy);
  const others = policies.length - named.length;
  return [...named, ...(others > 0 ? [`and ${others} more`] : [])].join("; ");
}

function limitsOfPolicy({ name, limits, isDryRun }: Policy): string {
  const each = limits.map((limit) => `${limit.limit} per ${formatWindow(limit)}`);
  return `${name} ${each.join(" and ")}${isDryRun ? " (dry run)" : ""}`;
}

function originOf({ origin }: Config, isDemoOrigin: boolean): string {
  if (isDemoOrigin) return "the demo origin";
  return origin.kind === "url" ? origin.url.origin : "the origin of its route";
}

/** A line if any policy is bound to a jurisdiction: workerd, which runs here, has none and refuses to name the object. */
export function jurisdictionWarnings(policies: readonly Policy[]): string[] {
  const bound = policies.filter(({ objects }) => objects.jurisdiction !== null);
  if (bound.length === 0) return [];
  const names = bound.map(({ name, onError }) => `${name} (onError = "${onError}")`).join(", ");
  return [
    `Local workerd knows no jurisdictions: decisions of ${names} are by onError here, which with "local" is the isolate's own count.`,
  ];
}
