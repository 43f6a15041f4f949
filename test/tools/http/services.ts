/** Writes a workerd configuration with many Workers, each with its own isolate, objects and sockets. */

export interface WorkerService {
  readonly name: string;
  /** Import names and files, relative to the configuration's folder. The first module is the entry. */
  readonly modules: Readonly<Record<string, string>>;
  readonly compatibilityDate: string;
  readonly flags?: readonly string[];
  readonly texts?: Readonly<Record<string, string>>;
  /** The classes of the Worker's objects, by binding name. */
  readonly objects?: Readonly<Record<string, string>>;
  /** Additional bindings, in the configuration's syntax. */
  readonly bindings?: readonly string[];
  /** The service that answers the Worker's outbound requests. */
  readonly outbound?: string;
}

/** A server outside of this process. */
export interface ExternalService {
  readonly name: string;
  readonly address: string;
}

/** A module that is built into the runtime. */
export interface Extension {
  readonly name: string;
  readonly file: string;
  readonly isInternal: boolean;
}

/** A socket for one entry point of a service. */
export interface WorkerSocket {
  readonly name: string;
  readonly service: string;
  readonly entrypoint?: string;
}

const quoted = (text: string): string => JSON.stringify(text);

export function configurationOf(
  services: readonly WorkerService[],
  sockets: readonly WorkerSocket[],
  extensions: readonly Extension[],
  storage: string,
  externals: readonly ExternalService[] = [],
): string {
  return `using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    ${[...services.map(serviceOf), ...externals.map(externalOf)].join("\n    ")}
    (name = "storage", disk = (path = ${quoted(storage)}, writable = true)),
  ],
  sockets = [
    ${sockets.map(socketOf).join("\n    ")}
  ],
  extensions = [(modules = [
    ${extensions.map(extensionOf).join("\n    ")}
  ])],
);
`;
}

function serviceOf(service: WorkerService): string {
  const { name, modules, compatibilityDate, flags = [], objects = {}, outbound } = service;
  const bindings = [
    ...Object.entries(service.texts ?? {}).map(
      ([binding, text]) => `(name = ${quoted(binding)}, text = ${quoted(text)})`,
    ),
    ...Object.entries(objects).map(
      ([binding, className]) => `(name = ${quoted(binding)}, durableObjectNamespace = ${quoted(className)})`,
    ),
    ...(service.bindings ?? []),
  ];
  const classes = Object.values(objects).map(
    (className) =>
      `(className = ${quoted(className)}, uniqueKey = ${quoted(`${name}-${className}`)}, enableSql = true)`,
  );
  const code = Object.entries(modules).map(
    ([module, file]) => `(name = ${quoted(module)}, esModule = embed ${quoted(file)})`,
  );
  return `(name = ${quoted(name)}, worker = (
      modules = [${code.join(", ")}],
      compatibilityDate = ${quoted(compatibilityDate)},
      compatibilityFlags = [${flags.map(quoted).join(", ")}],
      bindings = [${bindings.join(", ")}],
      durableObjectNamespaces = [${classes.join(", ")}],
      ${classes.length === 0 ? "" : `durableObjectStorage = (localDisk = "storage"),`}
      ${outbound === undefined ? "" : `globalOutbound = ${quoted(outbound)},`}
    )),`;
}

function socketOf({ name, service, entrypoint }: WorkerSocket): string {
  const at = entrypoint === undefined ? "" : `, entrypoint = ${quoted(entrypoint)}`;
  return `(name = ${quoted(name)}, http = (), service = (name = ${quoted(service)}${at})),`;
}

const externalOf = ({ name, address }: ExternalService): string =>
  `(name = ${quoted(name)}, external = (address = ${quoted(address)}, http = ())),`;

const extensionOf = ({ name, file, isInternal }: Extension): string =>
  `(name = ${quoted(name)}, esModule = embed ${quoted(file)}, internal = ${String(isInternal)}),`;
