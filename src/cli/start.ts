/**
 * `npm start`: runs the Worker in local workerd, in front of an origin. It adds what is not configured: secrets in
 * `.dev.vars`, a demo origin without ORIGIN, demo limits without LIMITS or POLICIES. Edits of the configuration take
 * effect without a restart.
 */
import { CommandError, exitWithError, parseCommandLine, readFreePort, runCommand } from "./command.ts";
import { buildConsole } from "./console-build.ts";
import { configurationSource, devVarsFiles, ensureDevVars, sourceOptions } from "./configuration-source.ts";
import { DemoTraffic, demoTrafficObstacle, startDemoOrigin } from "./demo.ts";
import { LiveConfiguration, watchFiles } from "./live-configuration.ts";
import { type LocalSetup, localSetup } from "./local-setup.ts";
import { LocalWorker, stopTogether } from "./local-worker.ts";
import { readSettings } from "./settings.ts";
import { problemsMessage, startMessage } from "./start-messages.ts";

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
  if (setup.problems.length > 0) console.error(problemsMessage(setup.problems));
  for (const warning of setup.warnings) console.error(warning);
  const worker = new LocalWorker({ port, environment: source.environment, persistTo });
  stopTogether(worker, () => {
    void traffic?.stop();
    origin.close();
  });
  await worker.run(setup);
  const url = `http://localhost:${port}`;
  console.log(startMessage(url, setup));
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

/** @throws CommandError when the setup has an origin or a webhook that the traffic would reach */
function demoTraffic(setup: LocalSetup, port: number): DemoTraffic {
  const obstacle = demoTrafficObstacle(setup);
  if (obstacle !== null) throw new CommandError(`--demo-traffic: ${obstacle}`);
  return new DemoTraffic(port);
}

const exitWithStack = (error: unknown): void =>
  exitWithError(error instanceof Error ? (error.stack ?? error.message) : String(error));
