/* Main: the process begins here, and the command line says what it is to be. */
#include "commands.h"
#include "server.h"

int main(int argc, char **argv)
{
    return commands_main(argc, argv, server_run, stdout, stderr);
}
