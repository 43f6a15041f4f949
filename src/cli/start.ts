/**
 * `npm start`: runs the Worker in local workerd, in front of an origin. It adds what is not configured: secrets in
 * `.dev.vars`, a demo origin without ORIGIN, demo limits without LIMITS or POLICIES. Edits of the configuration take
 * effect without a restart.
 */
import { askAdmin } from "./admin-api.ts";
import { CommandError, exitWithError, parseCommandLine, readFreePort, runCommand } from "./command.ts";
import { buildConsole } from "./console-build.ts";
import { configurationSource, devVarsFiles, ensureDevVars, sourceOptions } from "./configuration-source.ts";
import { DemoTraffic, demoTrafficObstacle, startDemoOrigin } from "./demo.ts";
import { LiveConfiguration, watchFiles } from "./live-configuration.ts";
import { type LocalSetup, localSetup } from "./local-setup.ts";
import { LocalWorker, stopTogether } from "./local-worker.ts";
import { readSettings } from "./settings.ts";
import { problemsMessage, startMessage } from "./start-messages.ts";
import { isRecord } from "../validation/json.ts";

const {
  port: portText,
  "persist-to": persistTo = null,
  "demo-traffic": hasDemoTraffic,
  ...values
} = parseCommandLine({
  port: { type: "string", default: "8787", value: "port", about: "The port to listen on." },
  "persist-to": { type: "string", value: "folder", about: "The folder for stored counters." },
  "demo-traffic": {
    type: "boolean",
    default: false,
    about: "Send requests of made-up visitors to the Worker, in front of the demo origin.",
  },
  ...sourceOptions,
});

await runCommand(start);

async function start(): Promise<void> {
  const port = await readFreePort(portText);
  const source = configurationSource(values);
  ensureDevVars(source);
  await buildConsole();
  const origin = await startDemoOrigin();
  const read = (): LocalSetup => localSetup(readSettings(source), origin.url);
  let isChanged = false;
  let liveConfiguration: LiveConfiguration | null = null;
  // Watching starts before the first reading, so that no edit is missed.
  const files = [source.file, ...devVarsFiles(source)];
  watchFiles(files, () => {
    isChanged = true;
    liveConfiguration?.update().catch(exitWithStack);
  });
  const setup = read();
  const traffic = hasDemoTraffic ? demoTraffic(setup, port) : null;
  if (setup.lines.length > 0) console.error(problemsMessage(setup.lines));
  for (const warning of setup.warnings) console.error(warning);
  const worker = new LocalWorker({ port, environment: source.environment, persistTo });
  stopTogether(worker, () => {
    void traffic?.stop();
    origin.close();
  });
  await worker.run(setup);
  const url = `http://localhost:${port}`;
  console.log(startMessage(url, setup, await rulesInEffect(url, setup)));
  if (traffic !== null) console.log(traffic.start(setup));
  liveConfiguration = new LiveConfiguration(setup, {
    read,
    run: async (next) => {
      await traffic?.stop();
      await worker.run(next);
      if (traffic !== null) console.log(traffic.start(next));
    },
    print: (text) => console.log(text),
    printError: (text) => console.error(text),
  });
  if (isChanged) await liveConfiguration.update();
}

/** The first 200 runtime rules, which an earlier run may have left in the local storage; none if they cannot be read. */
async function rulesInEffect(url: string, { config }: LocalSetup): Promise<Record<string, unknown>[]> {
  const admin = config?.admin ?? null;
  const reader = admin?.tokens.find(({ may }) => may.has("read"));
  if (admin === null || reader === undefined) return [];
  const api = { url: `${url}${admin.path}/api`, token: reader.token };
  try {
    const { json } = await askAdmin(api, "/rules?limit=200", { timeoutMs: 5_000 });
    return Array.isArray(json["rules"]) ? json["rules"].filter(isRecord) : [];
  } catch (error) {
    if (error instanceof CommandError) return [];
    throw error;
  }
}

/** @throws CommandError when the setup has an origin or a webhook that the traffic would reach */
function demoTraffic(setup: LocalSetup, port: number): DemoTraffic {
  const obstacle = demoTrafficObstacle(setup);
  if (obstacle !== null) throw new CommandError(`--demo-traffic: ${obstacle}`);
  return new DemoTraffic(port);
}

const exitWithStack = (error: unknown): void =>
  exitWithError(error instanceof Error ? (error.stack ?? error.message) : String(error));
