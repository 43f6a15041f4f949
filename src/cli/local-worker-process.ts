/**
 * The process of the local Worker: runs wrangler's development server with the setups that `npm start` sends. wrangler
 * rebuilds the Worker when the code changes.
 */
import { devNull } from "node:os";
import { unstable_DevEnv } from "wrangler";
import { isRecord } from "../validation/json.ts";
import { DryRunLines } from "./start-messages.ts";
import { buildsConsole } from "./console-build.ts";
import { takesHostFromRoute } from "./local-setup.ts";
import { devRegistryPath, isRebuildFailure, type RunReport, type RunRequest } from "./local-worker.ts";
import { messageOf } from "./command.ts";

const dryRunLines = new DryRunLines((line) => console.error(line));
const devEnv = new unstable_DevEnv();
type Input = Parameters<typeof devEnv.config.set>[0];

/** The id of the `RunRequest` that each configuration of wrangler was made from. */
const requestIds = new WeakMap<object, number>();
let latest = 0;
let isPending = false;

devEnv.on("reloadComplete", ({ config }: { config: object }) => {
  // HTTP requests wait until wrangler's proxy listens and knows the new Worker.
  void Promise.all([devEnv.proxy.ready.promise, devEnv.proxy.runtimeMessageMutex.drained()]).then(() =>
    report(requestIds.get(config) ?? latest, null),
  );
});
// wrangler has printed the error, and builds again when the code changes.
devEnv.on("buildFailed", (event: { reason: string }) => {
  if (isPending && !isRebuildFailure(event)) report(latest, "The Worker could not be built.");
});
devEnv.on("error", reportError);

process.on("message", (assignment: RunRequest) => void apply(assignment));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, end);
process.on("disconnect", end);

async function apply(assignment: RunRequest): Promise<void> {
  latest = assignment.id;
  isPending = true;
  try {
    const config = await devEnv.config.set(inputOf(assignment), true);
    if (config !== undefined) requestIds.set(config, assignment.id);
  } catch (error) {
    reportError(error);
  }
}

/** `npm start` builds the console itself, and wrangler then rebuilds the Worker faster after an edit of the code. */
const noBuild = { watch_dir: "./src" };

function inputOf({ wrangler, environment, variables, secretNames, port, persistTo }: RunRequest): Input {
  const bindings = Object.entries(variables).map(([name, value]) => {
    if (secretNames.includes(name)) return [name, { type: "secret_text", value }];
    return [name, { type: typeof value === "string" ? "plain_text" : "json", value }];
  });
  return {
    // The variables come from the setup only. wrangler would read `.dev.vars` again, which may have changed since.
    config: { ...wrangler, vars: {}, secrets: undefined, ...(buildsConsole(wrangler) && { build: noBuild }) },
    envFiles: [devNull],
    env: environment,
    bindings: Object.fromEntries(bindings) as NonNullable<Input["bindings"]>,
    dev: {
      server: { port },
      inferOriginFromRoutes: takesHostFromRoute(variables),
      inspector: false,
      registry: devRegistryPath(),
      logLevel: "warn",
      structuredLogsHandler: ({ level, message }: { level: string; message: string }) => {
        if (dryRunLines.takes(message)) return;
        if (level === "error" || level === "warn") console.error(message);
        else console.log(message);
      },
      ...(persistTo !== null && { persist: persistTo }),
    },
  };
}

/** wrangler emits plain errors, and events with a reason and a cause. */
function reportError(error: unknown): void {
  const { reason, cause }: Record<string, unknown> = isRecord(error) ? error : {};
  const isEvent = typeof reason === "string";
  report(latest, isEvent ? `${reason}: ${messageOf(cause)}` : messageOf(error));
}

function report(id: number, failure: string | null): void {
  isPending = false;
  if (process.connected) process.send?.({ id, failure } satisfies RunReport);
}

function end(): void {
  void devEnv.teardown().finally(() => process.exit());
}
