/** Starts the web worker of the playground. The build replaces this module, because it decides where the worker's code is. */
export const startPlaygroundWorker = (): Worker => {
  throw new Error("startPlaygroundWorker exists only in a build of the console");
};
