/**
 * `npm start`: the Worker in local workerd, in front of an origin. What is not configured yet is made up: secrets in
 * `.dev.vars`, a demo origin where there is no ORIGIN, a demo policy where there are no limits.
 *
 * Options: --port <number>, --persist-to <folder>.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { check } from "./check.ts";
import { fail, readOptions, runCommand } from "./command.ts";
import { type DemoOrigin, startDemoOrigin } from "./demo-origin.ts";
import { ensureDevVars } from "./dev-vars.ts";
import { demoPolicy, isDemo, localVariables, readSettings } from "./settings.ts";
import { type Source, sourceOf, sourceOptions } from "./source.ts";
import { complaint, jurisdictionWarnings, welcome } from "./welcome.ts";

const wranglerBin = fileURLToPath(
  new URL("../../node_modules/wrangler/bin/wrangler.js", import.meta.url),
);
const quiet = ["--show-interactive-dev-session=false", "--inspector-port", "0"];
const patienceMs = 60_000;
const graceMs = 5_000;

const {
  port: portText,
  "persist-to": persistTo,
  ...values
} = readOptions({
  port: { type: "string", default: "8787", value: "port", about: "Where to listen." },
  "persist-to": { type: "string", value: "folder", about: "Where to keep counters." },
  ...sourceOptions,
});

await runCommand(start);

async function start(): Promise<void> {
  const port = /^[1-9]\d{0,4}$/.test(portText) ? Number(portText) : 0;
  if (port < 1 || port > 65_535) {
    fail(`--port is "${portText}": accepted is a port from 1 to 65535`);
  }
  if (await isTaken(port)) {
    const other = port === 65_535 ? 8788 : port + 1;
    fail(
      `Port ${port} is taken by another program. Stop that one, or choose another port: npm start -- --port ${other}`,
    );
  }
  const source = sourceOf(values);
  ensureDevVars(source);
  const settings = readSettings(source);
  const vars = localVariables(settings);
  const origin = vars["ORIGIN"] ? null : await startDemoOrigin();
  const isDemoPolicy = isDemo(settings);
  const made = { ...(origin !== null && { ORIGIN: origin.url }), ...(isDemoPolicy && demoPolicy) };
  const { config, problems, warnings } = check(settings, { ...vars, ...made });
  const stop = stopTogether(startWrangler(port, source, made), origin);
  const url = `http://localhost:${port}`;
  if (!(await isAnswering(`${url}${config?.checkPath ?? "/check"}/health`))) {
    console.error(`The Worker did not answer at ${url} within ${patienceMs / 1000} s.`);
    await stop(1);
  }
  // With a valid configuration, the other problems concern its deployment.
  for (const line of config === null ? [] : problems) console.error(line);
  for (const warning of [...warnings, ...jurisdictionWarnings(config?.policies ?? [])]) {
    console.error(warning);
  }
  console.log(
    config === null
      ? complaint(url, problems)
      : welcome({ url, config, isDemoOrigin: origin !== null, isDemoPolicy }),
  );
}

function startWrangler(
  port: number,
  { file, environment }: Source,
  vars: Readonly<Record<string, string>>,
): ChildProcess {
  const given = Object.entries(vars).flatMap(([name, value]) => ["--var", `${name}:${value}`]);
  const persisted = persistTo === undefined ? [] : ["--persist-to", persistTo];
  const chosen = [`--config=${file}`, `--env=${environment}`];
  const child = spawn(
    process.execPath,
    [wranglerBin, "dev", "--port", String(port), ...quiet, ...chosen, ...given, ...persisted],
    {
      // A group of its own: wrangler's own children are ended with it, however it ends.
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...process.env,
        CLOUDFLARE_CF_FETCH_ENABLED: "false",
        WRANGLER_SEND_METRICS: "false",
        WRANGLER_HIDE_BANNER: "true",
      },
    },
  );
  passOn(child.stdout, process.stdout);
  passOn(child.stderr, process.stderr);
  return child;
}

/** Everything but a line for every request: the Worker's own lines are to be seen among the rest. */
function passOn(from: Readable, to: Writable): void {
  createInterface({ input: from }).on("line", (line) => {
    if (!line.includes("[wrangler:info]")) to.write(`${line}\n`);
  });
}

/** Ends everything when asked to, when wrangler ends by itself, and when nobody reads on. */
function stopTogether(
  wrangler: ChildProcess,
  origin: DemoOrigin | null,
): (exitCode: number) => Promise<void> {
  const ended = once(wrangler, "exit");
  let isStopping = false;
  const stop = async (exitCode: number): Promise<void> => {
    if (isStopping) return;
    isStopping = true;
    origin?.close();
    endGroup(wrangler, "SIGTERM");
    await Promise.race([ended, setTimeout(graceMs)]);
    process.exit(exitCode);
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const;
  for (const signal of signals) process.on(signal, () => void stop(0));
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => void stop(1));
  wrangler.once("exit", (code) => void stop(code ?? 1));
  // What wrangler left behind, or wrangler itself when it would not go, or when this process fails.
  process.on("exit", () => endGroup(wrangler, "SIGKILL"));
  return stop;
}

function endGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, signal);
  } catch {
    // The group is gone: what was wanted.
  }
}

async function isTaken(port: number): Promise<boolean> {
  const answers = await Promise.all(["127.0.0.1", "::1"].map((host) => accepts(host, port)));
  return answers.includes(true);
}

async function accepts(host: string, port: number): Promise<boolean> {
  const socket = connect({ host, port });
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** Any answer will do: a Worker whose configuration is broken says so itself. */
async function isAnswering(url: string): Promise<boolean> {
  const until = Date.now() + patienceMs;
  while (Date.now() < until) {
    // oxlint-disable-next-line no-await-in-loop
    const isUp = await fetch(url).then(
      () => true,
      () => false,
    );
    if (isUp) return true;
    // oxlint-disable-next-line no-await-in-loop
    await setTimeout(100);
  }
  return false;
}
