/** `npm run smoke -- <url>`: tests a deployment from outside, with few and harmless requests. */
import { readCheckTokens } from "../policy/vars/secrets.ts";
import { VariableReader } from "../policy/vars/variables.ts";
import { packageVersion } from "../http/wire/version.ts";
import { CommandError, parseArgument, runCommand } from "./command.ts";
import { configurationSource, readDevVars } from "./configuration-source.ts";
import { isLocalUrl } from "./admin-api.ts";
import { sendRequest } from "./request.ts";
import { runStep, smokeSteps, type SmokeTarget } from "./smoke-steps.ts";

const { argument, values } = parseArgument("<url>", {
  token: {
    type: "string",
    value: "token",
    about: "A token of /check; defaults to CHECK_TOKENS, and to .dev.vars for this machine.",
  },
  "admin-host": { type: "string", value: "host", about: "The host of the console: ADMIN_HOST." },
  "check-path": { type: "string", value: "path", default: "/check", about: "CHECK_PATH." },
  "admin-path": { type: "string", value: "path", default: "/_headgate", about: "ADMIN_PATH." },
  path: { type: "string", value: "path", about: "A path to which a policy applies." },
  policy: {
    type: "string",
    value: "name",
    about: "The policy to charge; defaults to the only one.",
  },
  key: {
    type: "string",
    multiple: true,
    value: "text",
    about: "A part of an unused key; defaults to a random address.",
  },
  "until-denied": {
    type: "string",
    value: "number",
    default: "0",
    about: "Send up to so many requests to the path, until one is denied.",
  },
  "expect-version": {
    type: "string",
    value: "version",
    about: "The deployed version; defaults to that of this checkout.",
  },
  timeout: { type: "string", value: "seconds", default: "60", about: "The time for all steps." },
});

await runCommand(async () => {
  const url = serverUrl(argument);
  const target: SmokeTarget = {
    url,
    adminUrl: adminUrl(values["admin-host"], url),
    checkPath: pathOption("check-path", values["check-path"]),
    adminPath: pathOption("admin-path", values["admin-path"]),
    path: values.path === undefined ? null : pathOption("path", values.path),
    token: readToken(url),
    policy: values.policy ?? null,
    key: values.key ?? [],
    mostRequests: integerOption("until-denied", values["until-denied"], 0, 1000),
    expectedVersion: values["expect-version"] ?? packageVersion,
  };
  const failed = await failedSteps(target, integerOption("timeout", values.timeout, 1, 3600));
  process.exitCode = failed === 0 ? 0 : 1;
});

/** Prints the outcome of each step. Returns how many have failed. */
async function failedSteps(target: SmokeTarget, seconds: number): Promise<number> {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(new Error(`the ${seconds} s of --timeout are over`)), seconds * 1000);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => stop.abort(new Error(`stopped by ${signal}`)));
  }
  const bounds = { signal: stop.signal, mostBytes: 1_000_000, types: /json|html|text\/plain/ };
  console.log(`Smoke test of ${target.url.origin}`);
  const counts = { pass: 0, fail: 0, skipped: 0 };
  const steps = Object.entries(smokeSteps);
  const nameWidth = 31;
  let notRun = steps.length;
  // One after the other, so that the output is in order and a deployment sees no burst.
  for (const [name, step] of steps) {
    // oxlint-disable-next-line no-await-in-loop
    const { outcome, detail } = await runStep(step, target, (url, request) => sendRequest(url, request, bounds));
    console.log(`  ${outcome.padEnd(8)} ${name.padEnd(nameWidth)} ${detail}`);
    counts[outcome] += 1;
    notRun -= 1;
    if (stop.signal.aborted || counts.pass === 0) break;
  }
  clearTimeout(timer);
  const rest = notRun > 0 ? `, ${notRun} not run` : "";
  console.log(`${counts.pass} passed, ${counts.fail} failed, ${counts.skipped} skipped${rest}`);
  return counts.fail;
}

function serverUrl(text = ""): URL {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.pathname !== "/" || url.search !== "") {
    throw new CommandError(
      `Expected the URL of a deployment without a path, such as https://limits.example.com, got "${text}".`,
    );
  }
  if (url.username !== "" || url.password !== "") {
    throw new CommandError("Expected a URL without a user name: name a token with --token.");
  }
  // The token must not cross a network in clear.
  if (url.protocol === "https:" || isLocalUrl(url)) return url;
  throw new CommandError(`Expected https, or http on this machine, got "${text}".`);
}

/** The URL of the console's host, with the protocol and the port of the deployment. */
function adminUrl(host: string | undefined, { protocol, port }: URL): URL | null {
  if (host === undefined) return null;
  const ownPort = port === "" || /:\d+$/.test(host) ? "" : `:${port}`;
  const url = URL.parse(`${protocol}//${host}${ownPort}`);
  if (url !== null && url.pathname === "/" && /^[\w.:-]+$/.test(host)) return url;
  throw new CommandError(`--admin-host: expected a host such as admin.example.com, got "${host}".`);
}

function pathOption(name: string, path: string): string {
  if (path.startsWith("/") && URL.canParse(path, "http://localhost") && !path.startsWith("//")) return path;
  throw new CommandError(`--${name}: expected a path such as /login, got "${path}".`);
}

function integerOption(name: string, text: string, least: number, most: number): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= least && value <= most) return value;
  throw new CommandError(`--${name}: expected an integer from ${least} to ${most}, got "${text}".`);
}

/** The token with the most rights. Tokens of `.dev.vars` are sent to this machine only. */
function readToken(url: URL): string | null {
  if (values.token !== undefined) return values.token;
  const text =
    process.env["CHECK_TOKENS"] || (isLocalUrl(url) ? readDevVars(configurationSource({}))["CHECK_TOKENS"] : undefined);
  const problems: string[] = [];
  const tokens = readCheckTokens(new VariableReader({ CHECK_TOKENS: text }, ({ accepted }) => problems.push(accepted)));
  if (problems.length > 0) throw new CommandError(`CHECK_TOKENS: expected ${problems.join("; ")}.`);
  return tokens.toSorted((a, b) => b.may.size - a.may.size)[0]?.token ?? null;
}
