/**
 * The process of the local Worker: wrangler's development server, with the plans that `npm start` sends. wrangler
 * rebuilds it by itself when the code changes.
 */
import { devNull } from "node:os";
import { unstable_DevEnv } from "wrangler";
import { devRegistryPath } from "./dev-registry.ts";
import type { Assignment, Report } from "./local-worker.ts";
import { messageOf } from "./command.ts";
import { isRebuild } from "./rebuild.ts";
import { isRecord } from "../validation/problems.ts";

const devEnv = new unstable_DevEnv();
type Input = Parameters<typeof devEnv.config.set>[0];

/** The assignments by the configuration that wrangler has made of them. */
const assignments = new WeakMap<object, number>();
let latest = 0;
let isPending = false;

devEnv.on("reloadComplete", ({ config }: { config: object }) => {
  // Requests wait until wrangler's proxy listens and knows the new Worker.
  void Promise.all([devEnv.proxy.ready.promise, devEnv.proxy.runtimeMessageMutex.drained()]).then(
    () => report(assignments.get(config) ?? latest, null),
  );
});
// wrangler has printed the error. After an edit of the code alone, it builds again when the code is corrected.
devEnv.on("buildFailed", (event: { reason: string }) => {
  if (isPending && !isRebuild(event)) report(latest, "The Worker could not be built.");
});
devEnv.on("error", fail);

process.on("message", (assignment: Assignment) => void apply(assignment));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, end);
process.on("disconnect", end);

async function apply(assignment: Assignment): Promise<void> {
  latest = assignment.id;
  isPending = true;
  try {
    const config = await devEnv.config.set(inputOf(assignment), true);
    if (config !== undefined) assignments.set(config, assignment.id);
  } catch (error) {
    fail(error);
  }
}

function inputOf({
  wrangler,
  environment,
  variables,
  secretNames,
  port,
  persistTo,
}: Assignment): Input {
  const bindings = Object.entries(variables).map(([name, value]) => {
    if (secretNames.includes(name)) return [name, { type: "secret_text", value }];
    return [name, { type: typeof value === "string" ? "plain_text" : "json", value }];
  });
  return {
    // Variables are those of the plan alone: wrangler would read .dev.vars, which may have changed since.
    config: { ...wrangler, vars: {}, secrets: undefined },
    envFiles: [devNull],
    env: environment,
    bindings: Object.fromEntries(bindings) as NonNullable<Input["bindings"]>,
    dev: {
      server: { port },
      inspector: false,
      registry: devRegistryPath(),
      logLevel: "warn",
      structuredLogsHandler: ({ level, message }: { level: string; message: string }) =>
        level === "error" || level === "warn" ? console.error(message) : console.log(message),
      ...(persistTo !== null && { persist: persistTo }),
    },
  };
}

/** wrangler's errors are errors, or events with a reason and a cause. */
function fail(error: unknown): void {
  const { reason, cause }: Record<string, unknown> = isRecord(error) ? error : {};
  const isEvent = typeof reason === "string";
  report(latest, isEvent ? `${reason}: ${messageOf(cause)}` : messageOf(error));
}

function report(id: number, failure: string | null): void {
  isPending = false;
  if (process.connected) process.send?.({ id, failure } satisfies Report);
}

function end(): void {
  void devEnv.teardown().finally(() => process.exit());
}
