/**
 * `npm start`: the Worker in local workerd, in front of an origin. What is not configured yet is made up: secrets in
 * `.dev.vars`, a demo origin where there is no ORIGIN, a demo policy where there are no limits. Edits of the
 * configuration take effect without a restart.
 */
import { fail, readOptions, runCommand } from "./command.ts";
import { startDemoOrigin } from "./demo-origin.ts";
import { devVarsFiles, ensureDevVars } from "./dev-vars.ts";
import { LocalWorker } from "./local-worker.ts";
import { complaint, problemsOf } from "./notices.ts";
import { type Plan, planOf } from "./plan.ts";
import { readFreePort } from "./port.ts";
import { Session } from "./session.ts";
import { readSettings } from "./settings.ts";
import { sourceOf, sourceOptions } from "./source.ts";
import { watchFiles } from "./watch.ts";
import { welcome } from "./welcome.ts";

const {
  port: portText,
  "persist-to": persistTo = null,
  ...values
} = readOptions({
  port: { type: "string", default: "8787", value: "port", about: "Where to listen." },
  "persist-to": { type: "string", value: "folder", about: "Where to keep counters." },
  ...sourceOptions,
});

await runCommand(start);

async function start(): Promise<void> {
  const port = await readFreePort(portText);
  const source = sourceOf(values);
  ensureDevVars(source);
  const origin = await startDemoOrigin();
  const read = (): Plan => planOf(readSettings(source), origin.url);
  let isChanged = false;
  let session: Session | null = null;
  // From before the first reading, so that no edit is missed.
  const files = [source.file, ...devVarsFiles(source)];
  watchFiles(files, () => {
    isChanged = true;
    session?.changed().catch(failHard);
  });
  const plan = read();
  if (plan.problems.length > 0) console.error(problemsOf(plan.problems, false));
  for (const warning of plan.warnings) console.error(warning);
  const worker = new LocalWorker({ port, environment: source.environment, persistTo });
  stopTogether(worker, () => origin.close());
  await worker.run(plan);
  const url = `http://localhost:${port}`;
  const { config, isDemoOrigin, isDemoPolicy } = plan;
  console.log(
    config === null ? complaint(url) : welcome({ url, config, isDemoOrigin, isDemoPolicy }),
  );
  session = new Session(plan, {
    read,
    run: (next) => worker.run(next),
    print: (text) => console.log(text),
    complain: (text) => console.error(text),
  });
  if (isChanged) await session.changed();
}

const failHard = (error: unknown): void =>
  fail(error instanceof Error ? (error.stack ?? error.message) : String(error));

/** Ends everything when asked to, when the Worker ends by itself, and when nobody reads on. */
function stopTogether(worker: LocalWorker, closeOrigin: () => void): void {
  let isStopping = false;
  const stop = async (exitCode: number): Promise<void> => {
    if (isStopping) return;
    isStopping = true;
    closeOrigin();
    await worker.stop();
    process.exit(exitCode);
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const;
  for (const signal of signals) process.on(signal, () => void stop(0));
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => void stop(1));
  worker.onEnd((exitCode) => void stop(exitCode));
}
